/*-------------------------------------------------------------------------
 *
 * la_build_key.c
 *	  index keys as strings of bytes whose order is that of the index
 *
 * A key is turned into a string of bytes such that comparing two strings
 * byte by byte, as unsigned numbers, gives the order of the index.  Sorting
 * then needs no comparison function: the sort looks at eight bytes (a word)
 * at a time.
 *
 * The string is the concatenation of the key columns:
 *
 *	 (2, 'ab') as (int4, text) -> 80 00 00 02 | 01 61 62 00
 *
 * Numbers are biased so that they are unsigned, most significant byte first.
 * Texts end with a zero byte, which no text contains, so a prefix sorts
 * before what it is a prefix of.  Each column but the first begins with a
 * byte that tells NULL from a value; the first needs none because rows whose
 * first column is NULL are kept apart (see la_build_spool.c).  The bytes of
 * a descending column are inverted.
 *
 * Texts in other collations contribute the sort key that ICU or the C library
 * makes of them (see la_build_collation.c).  Such strings take long to make, so
 * they are made once and kept.
 *
 * Only columns whose comparison function we know take part, and only up to
 * the first other column, or up to the first text in a locale of the C
 * library.  Rows whose strings are equal so far are then compared by core's
 * comparators.  Where the first column is not one we know, core's abbreviated
 * key (see utils/sortsupport.h) serves as the first word if there is one; it is
 * made for being compared as a number.
 *
 * Values that compare as equal must have equal strings, and the other way
 * round: that is why floats map -0 to 0 and all NaNs to one.  Of a text in a
 * locale of the C library the string is only a guess: other values may have it,
 * and the order may be wrong (see LaBuildKey.is_guess).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/tupmacs.h"
#include "catalog/index.h"
#include "catalog/pg_collation_d.h"
#include "port/pg_bswap.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/pg_locale.h"
#include "utils/uuid.h"
#include "varatt.h"

#include "index_build/la_build_key.h"

/* A string being made; only bytes in [from, from + 8) are of interest. */
typedef struct KeyString
{
	uint64		word;
	int			from;
	int			length;			/* bytes produced so far */
} KeyString;

static void init_column(LaBuildKey *key, int column);
static LaColumnKind column_kind(Relation index, int column);
static LaColumnKind text_kind(Oid collation);
static void init_abbreviation(LaBuildKey *key);
static Size fixed_tuple_size(TupleDesc tupdesc);
static void append_column(KeyString *string, const LaKeyColumn *column,
						  bool with_null_byte, Datum value, bool isnull);
static void append_text(KeyString *string, Datum value, uint8 inverted);
static void append_bytes(KeyString *string, const char *data, int length,
						 uint8 inverted);
static void make_sort_keys(LaBuildKey *key, const Datum *values,
						   const bool *isnull);
static uint64 make_word(const LaBuildKey *key, const Datum *values,
						const bool *isnull, int word, int *length);

/*
 * Describes the key of an index.  False if nothing is known about the order
 * of its first column, so that there would be nothing to gain.  Allocates in
 * the current context.
 */
bool
la_key_init(LaBuildKey *key, Relation index)
{
	memset(key, 0, sizeof(*key));
	key->index = index;
	key->tupdesc = RelationGetDescr(index);
	key->natts = IndexRelationGetNumberOfAttributes(index);
	key->nkeyatts = IndexRelationGetNumberOfKeyAttributes(index);
	key->sort_keys = palloc0(key->nkeyatts * sizeof(SortSupportData));

	for (int i = 0; i < key->nkeyatts; i++)
		init_column(key, i);
	while (key->nencoded < key->nkeyatts && !key->is_guess &&
		   key->columns[key->nencoded].kind != LA_COLUMN_OTHER)
	{
		const LaKeyColumn *column = &key->columns[key->nencoded++];

		key->is_guess = column->kind == LA_COLUMN_COLLATED &&
			!la_sort_key_is_exact(&column->sort_key);
	}

	key->is_word = key->natts == 1 &&
		(key->columns[0].kind == LA_COLUMN_SIGNED ||
		 key->columns[0].kind == LA_COLUMN_UNSIGNED);

	key->kind = key->is_word ? LA_RECORD_WORD : LA_RECORD_TUPLE;
	for (int i = 0; i < key->nencoded; i++)
	{
		if (key->columns[i].kind == LA_COLUMN_COLLATED)
			key->kind = LA_RECORD_BYTES;
	}
	if (key->nencoded == 0)
		init_abbreviation(key);
	if (key->natts == 1 && key->nencoded == 1)
		key->fixed_size = fixed_tuple_size(key->tupdesc);
	return key->nencoded > 0 || key->abbreviation != LA_ABBREVIATION_NONE;
}

/*
 * Size of index tuples of one column, 0 if it varies.
 */
static Size
fixed_tuple_size(TupleDesc tupdesc)
{
	int			length = TupleDescCompactAttr(tupdesc, 0)->attlen;

	return length > 0 ? MAXALIGN(sizeof(IndexTupleData) + length) : 0;
}

/*
 * True if equal strings mean equal keys, so that core's comparators are
 * never needed.
 */
bool
la_key_is_complete(const LaBuildKey *key)
{
	return key->nencoded == key->nkeyatts && !key->is_guess;
}

/*
 * The collation whose order is guessed (see LaBuildKey.is_guess).
 */
Oid
la_key_guessed_collation(const LaBuildKey *key)
{
	Assert(key->is_guess);
	return key->columns[key->nencoded - 1].sort_key.collation;
}

/*
 * Same rules as core's tuplesort_begin_index_btree() for the comparator.
 */
static void
init_column(LaBuildKey *key, int column)
{
	SortSupport ssup = &key->sort_keys[column];
	LaKeyColumn *description = &key->columns[column];
	int16		option = key->index->rd_indoption[column];

	description->kind = column_kind(key->index, column);
	if (description->kind == LA_COLUMN_COLLATED)
		la_sort_key_init(&description->sort_key,
						 key->index->rd_indcollation[column]);
	description->width = Max(TupleDescAttr(key->tupdesc, column)->attlen, 0);
	description->descending = (option & INDOPTION_DESC) != 0;
	description->nulls_first = (option & INDOPTION_NULLS_FIRST) != 0;

	ssup->ssup_cxt = CurrentMemoryContext;
	ssup->ssup_collation = key->index->rd_indcollation[column];
	ssup->ssup_nulls_first = description->nulls_first;
	ssup->ssup_attno = column + 1;
	ssup->abbreviate = false;
	PrepareSortSupportFromIndexRel(key->index, description->descending, ssup);
}

/*
 * Which kind of column this is, told by the comparison function of its
 * operator class: that, not the type, defines the order.
 */
static LaColumnKind
column_kind(Relation index, int column)
{
	Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(index), column);
	Oid			collation = index->rd_indcollation[column];

	switch (index_getprocid(index, column + 1, BTORDER_PROC))
	{
		case F_BTINT2CMP:
		case F_BTINT4CMP:
		case F_BTINT8CMP:
		case F_DATE_CMP:
		case F_TIME_CMP:
		case F_TIMESTAMP_CMP:
		case F_TIMESTAMPTZ_CMP:
			return attribute->attbyval ? LA_COLUMN_SIGNED : LA_COLUMN_OTHER;
		case F_BTOIDCMP:
		case F_BTBOOLCMP:
		case F_BTCHARCMP:
			return attribute->attbyval ? LA_COLUMN_UNSIGNED : LA_COLUMN_OTHER;
		case F_BTFLOAT4CMP:
			return LA_COLUMN_FLOAT4;
		case F_BTFLOAT8CMP:
			return attribute->attbyval ? LA_COLUMN_FLOAT8 : LA_COLUMN_OTHER;
		case F_UUID_CMP:
			return LA_COLUMN_UUID;
		case F_BTTEXTCMP:
			return text_kind(collation);
		default:
			return LA_COLUMN_OTHER;
	}
}

static LaColumnKind
text_kind(Oid collation)
{
	pg_locale_t locale;

	if (!OidIsValid(collation))
		return LA_COLUMN_OTHER;
	locale = pg_newlocale_from_collation(collation);
	if (locale->collate_is_c)
		return LA_COLUMN_TEXT;
	if (pg_strxfrm_enabled(locale) || locale->provider == COLLPROVIDER_LIBC)
		return LA_COLUMN_COLLATED;
	return LA_COLUMN_OTHER;
}

/*
 * Looks whether core has abbreviated keys for the first column whose order
 * we know: those compared as unsigned numbers (char(n) under ICU, bytea, inet,
 * macaddr and others) and those of numeric, which are signed numbers in
 * reverse (numeric_cmp_abbrev() in utils/adt/numeric.c).
 */
static void
init_abbreviation(LaBuildKey *key)
{
	SortSupport ssup = &key->abbreviated;

	*ssup = key->sort_keys[0];
	ssup->comparator = NULL;
	ssup->ssup_extra = NULL;
	ssup->abbreviate = true;
	PrepareSortSupportFromIndexRel(key->index, key->columns[0].descending, ssup);

	if (ssup->abbrev_converter == NULL || sizeof(Datum) != sizeof(uint64))
		key->abbreviation = LA_ABBREVIATION_NONE;
	else if (ssup->comparator == ssup_datum_unsigned_cmp)
		key->abbreviation = LA_ABBREVIATION_UNSIGNED;
	else if (index_getprocid(key->index, 1, BTORDER_PROC) == F_NUMERIC_CMP)
		key->abbreviation = LA_ABBREVIATION_NUMERIC;
}

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
la_key_value_bits(const LaKeyColumn *column)
{
	return PG_UINT64_MAX >> (64 - 8 * column->width);
}

/*
 * The word of a key that is one (see LaBuildKey.is_word): its value, of which
 * some bits are flipped.
 */
uint64
la_key_word_of_value(const LaKeyColumn *column, Datum value)
{
	uint64		number = number_of_value(column, value);

	return column->descending ? ~number : number;
}

/*
 * The inverse of la_key_word_of_value().
 */
Datum
la_key_value_of_word(const LaKeyColumn *column, uint64 word)
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
 * A float as a number that sorts as unsigned, in the order of float8_cmp():
 * NaN last, -0 equal to 0.
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

static void
append_text(KeyString *string, Datum value, uint8 inverted)
{
	text	   *packed = DatumGetTextPP(value);

	append_bytes(string, VARDATA_ANY(packed), VARSIZE_ANY_EXHDR(packed),
				 inverted);
	if ((Pointer) packed != DatumGetPointer(value))
		pfree(packed);
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
 * Makes the sort keys of a row's collated columns.
 */
static void
make_sort_keys(LaBuildKey *key, const Datum *values, const bool *isnull)
{
	for (int i = 0; i < key->nencoded; i++)
	{
		if (key->columns[i].kind == LA_COLUMN_COLLATED && !isnull[i])
			la_sort_key_make(&key->columns[i].sort_key, values[i]);
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
 * The first word of a key of a fixed size (see LaBuildKey.fixed_size) that is not
 * a word.
 */
uint64
la_key_fixed_word(const LaBuildKey *key, Datum value)
{
	const LaKeyColumn *column = &key->columns[0];
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
la_key_first_word(LaBuildKey *key, const Datum *values, const bool *isnull)
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

	if (key->kind == LA_RECORD_BYTES)
		make_sort_keys(key, values, isnull);
	return make_word(key, values, isnull, 0, &length);
}

/*
 * Stores the string of the row of which la_key_first_word() has just told the
 * first word.  False if it is too long.
 */
bool
la_key_make_bytes(LaBuildKey *key, const Datum *values, const bool *isnull,
				  LaKeyBytes *bytes)
{
	int			length = 0;

	for (int word = 0; 8 * word <= length && length <= LA_KEPT_BYTES - 8; word++)
	{
		uint64		made = pg_hton64(make_word(key, values, isnull, word,
											   &length));

		memcpy(bytes->bytes + 8 * word, &made, sizeof(made));
	}
	bytes->length = length <= LA_KEPT_BYTES - 8 ? length : 0;
	return length <= LA_KEPT_BYTES - 8;
}

/*
 * Stores the word-th word (the first is 0) of a row's key.  Returns false if
 * the string ends before it: rows that agree so far then agree in all
 * columns that become bytes.  Not for strings that were too long to be kept:
 * to make these again for each of their words would take forever.
 */
bool
la_key_next_word(const LaBuildKey *key, IndexTuple tuple, int word, uint64 *bytes)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	int			length;

	if (key->kind == LA_RECORD_BYTES)
	{
		const LaKeyBytes *kept = la_tuple_bytes(tuple);

		*bytes = 0;
		if (8 * word >= kept->length)
			return false;
		memcpy(bytes, kept->bytes + 8 * word, Min(kept->length - 8 * word, 8));
		*bytes = pg_ntoh64(*bytes);
		return true;
	}

	for (int i = 0; i < key->nencoded; i++)
		values[i] = index_getattr(tuple, i + 1, key->tupdesc, &isnull[i]);
	*bytes = make_word(key, values, isnull, word, &length);
	return length > 8 * word;
}

/*
 * Bytes of the index tuple of a row without NULLs whose values can be copied
 * as they are, but for the header of short texts; 0 if this row is not like
 * that.  The rules are those of heap_compute_data_size().
 */
Size
la_key_tuple_size(const LaBuildKey *key, const Datum *values,
				  const bool *isnull)
{
	Size		size = 0;

	for (int i = 0; i < key->natts; i++)
	{
		CompactAttribute *attribute = TupleDescCompactAttr(key->tupdesc, i);
		Pointer		value = DatumGetPointer(values[i]);

		if (isnull[i])
			return 0;
		if (attribute->attlen > 0)
			size = att_nominal_alignby(size, attribute->attalignby) +
				attribute->attlen;
		else if (attribute->attlen != -1 || VARATT_IS_EXTERNAL(value))
			return 0;
		else if (VARATT_IS_SHORT(value))
			size += VARSIZE_SHORT(value);
		else if (attribute->attispackable && VARATT_CAN_MAKE_SHORT(value))
			size += VARATT_CONVERTED_SHORT_SIZE(value);
		else
			return 0;
	}
	return MAXALIGN(sizeof(IndexTupleData) + size);
}

/*
 * Makes the index tuple of a row of which la_key_tuple_size() has told the
 * size, as index_form_tuple() would, without its TID.
 */
void
la_key_form_tuple(const LaBuildKey *key, const Datum *values, Size size,
				  IndexTuple tuple)
{
	char	   *at = (char *) tuple + sizeof(IndexTupleData);
	char	   *data = at;

	/* of a single value nothing but the end can be padding */
	if (key->natts == 1)
		memset((char *) tuple + size - MAXIMUM_ALIGNOF, 0, MAXIMUM_ALIGNOF);
	else
		memset(tuple, 0, size);
	tuple->t_info = size;
	for (int i = 0; i < key->natts; i++)
	{
		CompactAttribute *attribute = TupleDescCompactAttr(key->tupdesc, i);
		Pointer		value = DatumGetPointer(values[i]);

		if (attribute->attlen > 0)
		{
			at = data + att_nominal_alignby(at - data, attribute->attalignby);
			if (attribute->attbyval)
				store_att_byval(at, values[i], attribute->attlen);
			else
				memcpy(at, value, attribute->attlen);
			at += attribute->attlen;
			continue;
		}

		tuple->t_info |= INDEX_VAR_MASK;
		if (VARATT_IS_SHORT(value))
		{
			la_copy(at, value, VARSIZE_SHORT(value));
			at += VARSIZE_SHORT(value);
		}
		else
		{
			Size		length = VARATT_CONVERTED_SHORT_SIZE(value);

			SET_VARSIZE_SHORT(at, length);
			la_copy(at + 1, VARDATA(value), length - 1);
			at += length;
		}
	}
}

/*
 * Compares two keys as core's sort does, heap TIDs not included.  *has_null
 * is set if they are equal and a column is NULL.
 */
int
la_key_compare(const LaBuildKey *key, IndexTuple a, IndexTuple b,
			   bool *has_null)
{
	*has_null = false;
	for (int i = 0; i < key->nkeyatts; i++)
	{
		bool		isnull_a;
		bool		isnull_b;
		Datum		value_a = index_getattr(a, i + 1, key->tupdesc, &isnull_a);
		Datum		value_b = index_getattr(b, i + 1, key->tupdesc, &isnull_b);
		int			order = ApplySortComparator(value_a, isnull_a,
												value_b, isnull_b,
												&key->sort_keys[i]);

		if (order != 0)
			return order;
		*has_null |= isnull_a;
	}
	return 0;
}

/*
 * The same, faster where strings are kept.
 */
int
la_key_compare_order(const LaBuildKey *key, IndexTuple a, IndexTuple b)
{
	bool		has_null;

	if (key->kind == LA_RECORD_BYTES)
	{
		const LaKeyBytes *bytes_a = la_tuple_bytes(a);
		const LaKeyBytes *bytes_b = la_tuple_bytes(b);

		if (bytes_a->length > 0 && bytes_b->length > 0)
		{
			int			order = memcmp(bytes_a->bytes, bytes_b->bytes,
									   Min(bytes_a->length, bytes_b->length));

			/* no string is the beginning of another one */
			if (order != 0 || la_key_is_complete(key))
				return order;
		}
	}
	return la_key_compare(key, a, b, &has_null);
}
