/*-------------------------------------------------------------------------
 *
 * la_build_string.c
 *	  the strings of bytes that index keys become, word by word
 *
 * A string is the concatenation of the key columns:
 *
 *	 (2, 'ab') as (int4, text) -> 80 00 00 02 | 01 61 62 00
 *
 * Numbers are biased so that they are unsigned, most significant byte first.
 * Texts end with a zero byte, which no text contains, so a prefix sorts
 * before what it is a prefix of.  Each column but the first begins with a
 * byte that tells NULL from a value; the first needs none because rows whose
 * first column is NULL are kept apart (see la_build_collect.c).  The bytes of
 * a descending column are inverted.
 *
 * Texts in other collations contribute the sort key that ICU or the C library
 * makes of them (see la_build_collation.c).  Such strings take long to make, so
 * they are made once and kept with the entry.  Of others a word at a time is
 * made when the sort asks for it.
 *
 * Values that compare as equal must have equal strings, and the other way
 * round: that is why floats map -0 to 0 and all NaNs to one.
 *
 * Reads SortSupportData of sortsupport.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "port/pg_bswap.h"
#include "utils/float.h"
#include "utils/uuid.h"

#include "index_build/keys/la_build_string.h"

/* A string being made; only bytes in [from, from + 8) are of interest. */
typedef struct KeyString
{
	uint64		word;
	int			from;
	int			length;			/* bytes produced so far */
} KeyString;

/*
 * A fixed-width value as a number that sorts as unsigned.
 */
static inline uint64
number_of_value(const LaKeyColumn *column, Datum value)
{
	switch (column->width)
	{
		case 1:
			return DatumGetUInt8(value);
		case 2:
			return (uint16) (DatumGetUInt16(value) ^ 0x8000);
		case 4:
			if (column->kind == LA_COLUMN_UNSIGNED)
				return DatumGetUInt32(value);
			return DatumGetUInt32(value) ^ 0x80000000;
		default:
			Assert(column->width == 8);
			return (uint64) DatumGetInt64(value) ^ UINT64CONST(0x8000000000000000);
	}
}

/*
 * As many of the lowest bits as a value of the column has.
 */
uint64
la_build_string_value_bits(const LaKeyColumn *column)
{
	return PG_UINT64_MAX >> (64 - 8 * column->width);
}

/*
 * The word of a key that is one (see LaBuildKey.is_word): its value, of which
 * some bits are flipped.
 */
uint64
la_build_string_word_of_value(const LaKeyColumn *column, Datum value)
{
	uint64		number = number_of_value(column, value);

	return column->descending ? ~number : number;
}

/*
 * The inverse of la_build_string_word_of_value().
 */
Datum
la_build_string_value_of_word(const LaKeyColumn *column, uint64 word)
{
	uint64		number = column->descending ? ~word : word;

	switch (column->width)
	{
		case 1:
			return UInt8GetDatum((uint8) number);
		case 2:
			return Int16GetDatum((int16) (number ^ 0x8000));
		case 4:
			if (column->kind == LA_COLUMN_UNSIGNED)
				return UInt32GetDatum((uint32) number);
			return Int32GetDatum((int32) (number ^ 0x80000000));
		default:
			Assert(column->width == 8);
			return Int64GetDatum((int64) (number ^ UINT64CONST(0x8000000000000000)));
	}
}

/*
 * A float as a number that sorts as unsigned: NaN last, -0 equal to 0.  Mirrors
 * float8_cmp_internal() in float.c.
 */
static inline uint64
number_of_float(float8 value)
{
	uint64		bits;

	if (isnan(value))
		return PG_UINT64_MAX;
	if (value == 0)
		value = 0;				/* also of -0 */
	memcpy(&bits, &value, sizeof(bits));
	return (bits >> 63) ? ~bits : bits | UINT64CONST(0x8000000000000000);
}

/*
 * The first or second eight bytes of a uuid.
 */
static inline uint64
half_of_uuid(Datum value, int half)
{
	uint64		number;

	memcpy(&number, DatumGetUUIDP(value)->data + 8 * half, sizeof(number));
	return pg_ntoh64(number);
}

static inline void
append_byte(KeyString *string, uint8 byte)
{
	int			at = string->length++ - string->from;

	if (at >= 0 && at < 8)
		string->word |= (uint64) byte << (56 - 8 * at);
}

/*
 * Appends the lowest `width` bytes of a number, most significant first.
 */
static inline void
append_number(KeyString *string, uint64 number, int width)
{
	int			at = string->length - string->from;

	if (at + width <= 0 || at >= 8)
	{
		/* outside of the wanted word */
		string->length += width;
		return;
	}
	if (at == 0)
	{
		string->word = number << (64 - 8 * width);
		string->length += width;
		return;
	}
	for (int shift = 8 * (width - 1); shift >= 0; shift -= 8)
		append_byte(string, (uint8) (number >> shift));
}

/*
 * Appends bytes and the zero byte that ends them.
 */
static void
append_bytes(KeyString *string, const char *data, int length, uint8 inverted)
{
	int			done = Min(Max(string->from - string->length, 0), length);

	/* Bytes outside of the wanted word need only be counted. */
	string->length += done;
	if (string->length == string->from)
	{
		int			count = Min(length - done, 8);
		uint64		mask = count == 8 ? PG_UINT64_MAX : ~(PG_UINT64_MAX >> (8 * count));

		memcpy(&string->word, data + done, count);
		string->word = pg_ntoh64(string->word);
		if (inverted != 0)
			string->word = ~string->word & mask;
		string->length += count;
		done += count;
	}
	for (; done < length && string->length < string->from + 8; done++)
		append_byte(string, (uint8) data[done] ^ inverted);
	string->length += length - done;
	append_byte(string, inverted);
}

/*
 * Of a compressed value only as much is looked at as the wanted word needs.  What
 * is cut off would have come behind the word.
 */
static void
append_text(KeyString *string, Datum value, uint8 inverted)
{
	text	   *packed = la_build_text_start(value, string->from + 8 - string->length);

	append_bytes(string, VARDATA_ANY(packed), VARSIZE_ANY_EXHDR(packed),
				 inverted);
	if ((Pointer) packed != DatumGetPointer(value))
		pfree(packed);
}

static void
append_column(KeyString *string, const LaKeyColumn *column,
			  bool with_null_byte, Datum value, bool isnull)
{
	uint8		inverted = column->descending ? 0xFF : 0;
	uint64		inversion = column->descending ? PG_UINT64_MAX : 0;

	if (with_null_byte)
		append_byte(string, isnull ? (column->nulls_first ? 0 : 2) : 1);
	if (isnull)
		return;

	switch (column->kind)
	{
		case LA_COLUMN_SIGNED:
		case LA_COLUMN_UNSIGNED:
			append_number(string, number_of_value(column, value) ^ inversion,
						  column->width);
			break;
		case LA_COLUMN_FLOAT4:
			append_number(string,
						  number_of_float(DatumGetFloat4(value)) ^ inversion, 8);
			break;
		case LA_COLUMN_FLOAT8:
			append_number(string,
						  number_of_float(DatumGetFloat8(value)) ^ inversion, 8);
			break;
		case LA_COLUMN_UUID:
			for (int half = 0; half < 2; half++)
				append_number(string, half_of_uuid(value, half) ^ inversion, 8);
			break;
		case LA_COLUMN_TEXT:
			append_text(string, value, inverted);
			break;
		case LA_COLUMN_COLLATED:
			append_bytes(string, column->sort_key.bytes,
						 column->sort_key.length, inverted);
			break;
		case LA_COLUMN_OTHER:
			Assert(false);
			break;
	}
}

/*
 * A word of a row's key, whose sort keys have been made.  *length is how far
 * the string is known to go: less than a word beyond the word if it ends.
 */
static inline uint64
make_word(const LaBuildKey *key, const Datum *values, const bool *isnull,
		  int word, int *length)
{
	KeyString	string = {.from = 8 * word};

	for (int i = isnull[0] ? 1 : 0;
		 i < key->nencoded && string.length < string.from + 8; i++)
		append_column(&string, &key->columns[i], i > 0, values[i], isnull[i]);
	*length = string.length;
	return string.word;
}

/*
 * The first word of what a value of a fixed size becomes.
 */
uint64
la_build_string_fixed_word(const LaKeyColumn *column, Datum value)
{
	KeyString	string = {0};

	if (column->kind == LA_COLUMN_UUID)
		return half_of_uuid(value, 0) ^ (column->descending ? PG_UINT64_MAX : 0);
	append_column(&string, column, false, value, false);
	return string.word;
}

/*
 * The first word of a row's key.  The first column is not NULL, or else it
 * is left out, so that rows whose first column is NULL can be sorted by the
 * others.
 */
uint64
la_build_string_first_word(LaBuildKey *key, const Datum *values, const bool *isnull)
{
	int			length;

	if (key->abbreviation != LA_ABBREVIATION_NONE)
	{
		uint64		word;

		if (isnull[0])
			return 0;
		word = (uint64) key->abbreviated.abbrev_converter(values[0],
														  &key->abbreviated);
		if (key->abbreviation == LA_ABBREVIATION_NUMERIC)
			word = ~(word ^ UINT64CONST(0x8000000000000000));
		return key->columns[0].descending ? ~word : word;
	}

	if (key->is_guess && !isnull[key->nencoded - 1])
		la_build_collation_key_make(&key->columns[key->nencoded - 1].sort_key,
									values[key->nencoded - 1]);
	return make_word(key, values, isnull, 0, &length);
}

/*
 * Stores the string of a row whose first word, and with it the sort key, has been
 * made: as much as is kept.
 */
static void
store_string(const LaBuildKey *key, const Datum *values, const bool *isnull,
			 LaKeyBytes *kept)
{
	Datum		flat[INDEX_MAX_KEYS];
	int			length = 0;
	int			made = 0;

	/* texts are decompressed once, and no more of them than is kept */
	for (int i = 0; i < key->nencoded; i++)
		flat[i] = key->columns[i].kind == LA_COLUMN_TEXT && !isnull[i] ?
			PointerGetDatum(la_build_text_start(values[i], LA_KEPT_BYTES)) : values[i];

	for (; made <= length && made < LA_KEPT_BYTES; made += sizeof(uint64))
	{
		uint64		word = pg_hton64(make_word(key, flat, isnull,
											   made / sizeof(uint64), &length));

		memcpy(kept->bytes + made, &word, sizeof(word));
	}
	kept->length = Min(length, made);

	for (int i = 0; i < key->nencoded; i++)
	{
		if (flat[i] != values[i])
			pfree(DatumGetPointer(flat[i]));
	}
}

/*
 * The same where the string is nothing but a sort key and the byte that ends it.
 */
static void
store_sort_key(const LaKeyColumn *column, LaKeyBytes *kept)
{
	int			length = column->sort_key.length;

	memcpy(kept->bytes, column->sort_key.bytes, length);
	kept->bytes[length++] = 0;
	for (int i = 0; column->descending && i < length; i++)
		kept->bytes[i] ^= 0xFF;
	kept->length = length;
}

/*
 * Makes the key of a row: returns its first word and, where strings are kept,
 * stores the string.
 */
uint64
la_build_string_make(LaBuildKey *key, const Datum *values, const bool *isnull,
					 LaKeyBytes *kept)
{
	uint64		word = la_build_string_first_word(key, values, isnull);

	if (key->kind != LA_RECORD_BYTES)
		return word;
	if (key->nencoded > 1)
		store_string(key, values, isnull, kept);
	else if (isnull[0])
		kept->length = 0;
	else
		store_sort_key(&key->columns[0], kept);
	return word;
}

/*
 * Stores the word-th word (the first is 0) of a row's key.  Returns false if
 * the string ends before it: rows that agree so far then agree in all
 * columns that become bytes, or in as much as is kept.
 */
bool
la_build_string_next_word(const LaBuildKey *key, IndexTuple tuple, int word,
						  uint64 *bytes)
{
	KeyString	string = {.from = 8 * word};
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	if (key->kind == LA_RECORD_BYTES)
	{
		const LaKeyBytes *kept = la_build_record_bytes(tuple);
		int			left = (int) kept->length - 8 * word;

		*bytes = 0;
		if (left <= 0)
			return false;
		memcpy(bytes, kept->bytes + 8 * word, Min(left, 8));
		*bytes = pg_ntoh64(*bytes);
		return true;
	}

	/* to find each of many columns is to walk over those before it */
	if (key->nencoded > 2)
		index_deform_tuple(tuple, key->tupdesc, values, isnull);
	for (int i = 0; i < key->nencoded && string.length < string.from + 8; i++)
	{
		if (key->nencoded <= 2)
			values[i] = index_getattr(tuple, i + 1, key->tupdesc, &isnull[i]);
		if (i > 0 || !isnull[i])
			append_column(&string, &key->columns[i], i > 0, values[i], isnull[i]);
	}
	*bytes = string.word;
	return string.length > string.from;
}

/*
 * How many bytes at the beginning are equal.
 */
static int
common_bytes(const char *a, const char *b, int size)
{
	int			at = 0;

	for (; at + 8 <= size; at += 8)
	{
		uint64		difference;
		uint64		other;

		memcpy(&difference, a + at, 8);
		memcpy(&other, b + at, 8);
		difference = pg_ntoh64(difference ^ other);
		if (difference != 0)
			return at + (63 - pg_leftmost_one_pos64(difference)) / 8;
	}
	while (at < size && a[at] == b[at])
		at++;
	return at;
}

/*
 * How many bytes of the strings of two keys are equal, as is seen quickly.
 */
static int
common_beginning(const LaBuildKey *key, IndexTuple a, IndexTuple b)
{
	bool		isnull[2];
	Datum		values[2];
	text	   *texts[2];
	int			common;

	if (key->kind == LA_RECORD_BYTES)
		return common_bytes((char *) la_build_record_bytes(a)->bytes,
							(char *) la_build_record_bytes(b)->bytes,
							Min(la_build_record_bytes(a)->length,
								la_build_record_bytes(b)->length));
	if (key->columns[0].kind != LA_COLUMN_TEXT)
		return 0;
	values[0] = index_getattr(a, 1, key->tupdesc, &isnull[0]);
	values[1] = index_getattr(b, 1, key->tupdesc, &isnull[1]);
	if (isnull[0] || isnull[1])
		return 0;
	for (int i = 0; i < 2; i++)
		texts[i] = la_build_text_start(values[i], -1);
	common = common_bytes(VARDATA_ANY(texts[0]), VARDATA_ANY(texts[1]),
						  Min(VARSIZE_ANY_EXHDR(texts[0]),
							  VARSIZE_ANY_EXHDR(texts[1])));
	for (int i = 0; i < 2; i++)
	{
		if ((Pointer) texts[i] != DatumGetPointer(values[i]))
			pfree(texts[i]);
	}
	return common;
}

/*
 * Words that are compared one by one in search of one that differs; arbitrary.
 */
#define MAX_SEARCH 8

/*
 * The first word, from the word-th on and before `most`, in which two keys differ
 * that agree in all before it.  `most` if there is none, or none that is found
 * quickly.
 */
int
la_build_string_parting_word(const LaBuildKey *key, IndexTuple a, IndexTuple b, int word,
							 int most)
{
	int			end;

	word = Max(word, common_beginning(key, a, b) / 8);
	end = Min(most, word + MAX_SEARCH);
	for (; word < end; word++)
	{
		uint64		word_a;
		uint64		word_b;

		if (!la_build_string_next_word(key, a, word, &word_a) ||
			!la_build_string_next_word(key, b, word, &word_b))
			return most;
		if (word_a != word_b)
			return word;
	}
	return most;
}
