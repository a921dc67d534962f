/*-------------------------------------------------------------------------
 *
 * la_build_tuple.c
 *	  index tuples of rows: their size, how they are made and compared
 *
 * Most rows have values that need nothing but to be copied, for which core's
 * index_form_tuple() does too much.  Others are left to it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "varatt.h"

#include "index_build/entries/la_build_record.h"
#include "index_build/keys/la_build_string.h"
#include "index_build/keys/la_build_tuple.h"

/*
 * Bytes of the index tuple of a row without NULLs whose values can be copied
 * as they are, but for the header of short texts; 0 if this row is not like
 * that.  Mirrors heap_compute_data_size() in heaptuple.c.
 */
Size
la_build_tuple_plain_size(const LaBuildKey *key, const Datum *values,
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
 * Makes the index tuple of a row of which la_build_tuple_plain_size() has told the
 * size, without its TID.  Mirrors index_form_tuple_context() in indextuple.c and
 * fill_val() in heaptuple.c.
 */
void
la_build_tuple_form(const LaBuildKey *key, const Datum *values, Size size,
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
			la_build_record_copy(at, value, VARSIZE_SHORT(value));
			at += VARSIZE_SHORT(value);
		}
		else
		{
			Size		length = VARATT_CONVERTED_SHORT_SIZE(value);

			SET_VARSIZE_SHORT(at, length);
			la_build_record_copy(at + 1, VARDATA(value), length - 1);
			at += length;
		}
	}
}

/*
 * Prepares to make index tuples of words.
 */
void
la_build_word_form_init(LaWordForm *form, const LaBuildKey *key)
{
	const LaKeyColumn *column = &key->columns[0];

	form->width = column->width;
	form->value_bits = la_build_string_value_bits(column);
	form->flipped_bits = (uint64) la_build_string_value_of_word(column, 0) &
		form->value_bits;
}

/*
 * Compares two keys as core's sort does, heap TIDs not included.  *has_null
 * is set if they are equal and a column is NULL.  Mirrors
 * comparetup_index_btree_tiebreak() in tuplesortvariants.c.
 */
int
la_build_tuple_compare(const LaBuildKey *key, IndexTuple a, IndexTuple b,
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
la_build_tuple_compare_order(const LaBuildKey *key, IndexTuple a, IndexTuple b)
{
	bool		has_null;

	if (key->kind == LA_RECORD_BYTES)
	{
		const LaKeyBytes *bytes_a = la_build_record_bytes(a);
		const LaKeyBytes *bytes_b = la_build_record_bytes(b);
		int			order = memcmp(bytes_a->bytes, bytes_b->bytes,
								   Min(bytes_a->length, bytes_b->length));

		if (order != 0)
			return order;
	}
	return la_build_tuple_compare(key, a, b, &has_null);
}
