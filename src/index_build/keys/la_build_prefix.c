/*-------------------------------------------------------------------------
 *
 * la_build_prefix.c
 *	  how far the keys of many entries agree
 *
 * Entries that agree in one word of their keys may agree in the next thousand,
 * too.  To look at these one by one would be to read all entries a thousand times.
 * Instead each key is compared once with one of them, as far as all those before
 * have agreed with it, and the sort goes on at the word where they part.
 *
 * The length found is exactly what the strings (see la_build_string.c) have in common:
 * values are compared by what they become, for those that are equal, as -0 and 0
 * are, need not have the same bits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "port/pg_bswap.h"
#include "utils/uuid.h"

#include "index_build/keys/la_build_prefix.h"
#include "index_build/keys/la_build_string.h"
#include "index_build/keys/la_build_text.h"

static int	common_of_kept(const LaPrefix *prefix, IndexTuple tuple);
static int	common_of_columns(LaPrefix *prefix, IndexTuple tuple);
static bool same_text(LaPrefix *prefix, Datum first, Datum value, int *at);
static int	common_of_numbers(const LaKeyColumn *column, Datum first, Datum value);
static int	common_bytes(const char *a, const char *b, int size);

/*
 * Bytes that a value of a column has in its string, without those that end a
 * text.
 */
static int
value_bytes(const LaKeyColumn *column, Datum value)
{
	switch (column->kind)
	{
		case LA_COLUMN_FLOAT4:
		case LA_COLUMN_FLOAT8:
			return sizeof(uint64);
		case LA_COLUMN_TEXT:
			return VARSIZE_ANY_EXHDR(DatumGetPointer(value)) + 1;
		default:
			return column->width;
	}
}

/*
 * Begins with one key, whose index tuple the caller keeps until la_prefix_end().
 */
void
la_prefix_begin(LaPrefix *prefix, const LaBuildKey *key, IndexTuple first)
{
	prefix->key = key;
	prefix->first = first;
	prefix->whole = 0;
	prefix->decompressed = false;
	if (key->kind == LA_RECORD_BYTES)
		prefix->whole = la_tuple_bytes(first)->length;
	else
	{
		for (int i = 0; i < key->nencoded; i++)
		{
			const LaKeyColumn *column = &key->columns[i];
			Datum		value = index_getattr(first, i + 1, key->tupdesc,
											  &prefix->isnull[i]);

			prefix->values[i] = value;
			prefix->whole += i > 0;
			if (prefix->isnull[i])
				continue;
			if (column->kind == LA_COLUMN_TEXT)
				prefix->values[i] = PointerGetDatum(la_text_start(value, -1));
			prefix->decompressed |= prefix->values[i] != value;
			prefix->whole += value_bytes(column, prefix->values[i]);
		}
	}
	prefix->length = prefix->whole;
}

/*
 * Shortens the prefix to what another key has in common with the first.
 */
void
la_prefix_add(LaPrefix *prefix, IndexTuple tuple)
{
	int			common = prefix->key->kind == LA_RECORD_BYTES ?
		common_of_kept(prefix, tuple) : common_of_columns(prefix, tuple);

	prefix->length = Min(prefix->length, common);
}

/*
 * Frees what la_prefix_begin() has decompressed.
 */
void
la_prefix_end(LaPrefix *prefix)
{
	const LaBuildKey *key = prefix->key;

	if (key->kind == LA_RECORD_BYTES)
		return;
	for (int i = 0; i < key->nencoded; i++)
	{
		bool		isnull;
		Datum		stored = index_getattr(prefix->first, i + 1, key->tupdesc,
										   &isnull);

		if (!isnull && key->columns[i].kind == LA_COLUMN_TEXT &&
			stored != prefix->values[i])
			pfree(DatumGetPointer(prefix->values[i]));
	}
}

static int
common_of_kept(const LaPrefix *prefix, IndexTuple tuple)
{
	const LaKeyBytes *first = la_tuple_bytes(prefix->first);
	const LaKeyBytes *other = la_tuple_bytes(tuple);

	return common_bytes((const char *) first->bytes, (const char *) other->bytes,
						Min(prefix->length, other->length));
}

static int
common_of_columns(LaPrefix *prefix, IndexTuple tuple)
{
	const LaBuildKey *key = prefix->key;
	int			at = 0;

	for (int i = 0; i < key->nencoded && at < prefix->length; i++)
	{
		const LaKeyColumn *column = &key->columns[i];
		bool		isnull;
		Datum		value = index_getattr(tuple, i + 1, key->tupdesc, &isnull);
		Datum		first = prefix->values[i];

		if (isnull != prefix->isnull[i])
			return at;
		at += i > 0;
		if (isnull)
			continue;
		if (column->kind == LA_COLUMN_TEXT)
		{
			if (!same_text(prefix, first, value, &at))
				return at;
		}
		else
		{
			int			common = common_of_numbers(column, first, value);

			at += common;
			if (common < value_bytes(column, first))
				return at;
		}
	}
	return at;
}

/*
 * How many bytes at the beginning two values of a fixed size have in common.
 */
static int
common_of_numbers(const LaKeyColumn *column, Datum first, Datum value)
{
	uint64		difference;

	if (column->kind == LA_COLUMN_UUID)
		return common_bytes((char *) DatumGetUUIDP(first)->data,
							(char *) DatumGetUUIDP(value)->data, UUID_LEN);
	difference = la_key_fixed_word(column, first) ^
		la_key_fixed_word(column, value);
	return difference == 0 ? value_bytes(column, first) :
		(63 - pg_leftmost_one_pos64(difference)) / 8;
}

/*
 * Compares two texts whose strings begin at *at, and moves that to their end, or
 * to where they differ or the prefix ends, which is when it returns false.
 */
static bool
same_text(LaPrefix *prefix, Datum first, Datum value, int *at)
{
	int			wanted = prefix->length - *at;
	text	   *other = la_text_start(value, wanted);
	int			size = VARSIZE_ANY_EXHDR(DatumGetPointer(first));
	int			other_size = VARSIZE_ANY_EXHDR(other);
	int			common = common_bytes(VARDATA_ANY(DatumGetPointer(first)),
									  VARDATA_ANY(other),
									  Min(wanted, Min(size, other_size)));
	bool		same = common == size && common == other_size;

	*at += common + same;
	if ((Pointer) other != DatumGetPointer(value))
	{
		prefix->decompressed = true;
		pfree(other);
	}
	return same;
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
