/*-------------------------------------------------------------------------
 *
 * la_insert_row.c
 *	  a row as it will be on a page
 *
 * A row is formed once, straight where it will wait for its insertion.  One that comes as
 * a tuple (of a scan that projects nothing, of a sort) is copied as it is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heaptoast.h"

#include "bulk_insert/page/la_insert_row.h"

static bool measure_values(LaInsertRow *row);
static bool form_values(const LaInsertRow *row, HeapTupleHeader place);

/*
 * The tuple as which a row comes, or NULL; a slot of this kind that was filled with values
 * has none, either.
 */
static inline HeapTuple
tuple_of(const TupleTableSlot *slot)
{
	if (TTS_IS_HEAPTUPLE(slot))
		return ((const HeapTupleTableSlot *) slot)->tuple;
	if (TTS_IS_BUFFERTUPLE(slot))
		return ((const BufferHeapTupleTableSlot *) slot)->base.tuple;
	return NULL;
}

static inline MinimalTuple
minimal_of(const TupleTableSlot *slot)
{
	if (TTS_IS_MINIMALTUPLE(slot))
		return ((const MinimalTupleTableSlot *) slot)->mintuple;
	return NULL;
}

/*
 * Is this a tuple that lacks columns that its table has got later?
 */
bool
la_insert_row_is_short(const TupleTableSlot *slot)
{
	int			columns = slot->tts_tupleDescriptor->natts;
	HeapTuple	tuple = tuple_of(slot);
	MinimalTuple minimal = minimal_of(slot);

	return (tuple != NULL && HeapTupleHeaderGetNatts(tuple->t_data) < columns) ||
		(minimal != NULL && HeapTupleHeaderGetNatts(minimal) < columns);
}

/*
 * How long is the row in this slot, which has the table's row type?  False when values
 * have to be toasted first, which mirrors heap_prepare_insert() in heapam.c.
 */
bool
la_insert_row_measure(LaInsertRow *row, TupleTableSlot *slot)
{
	*row = (LaInsertRow)
	{
		.slot = slot,.tuple = tuple_of(slot),.minimal = minimal_of(slot)
	};
	if (row->tuple != NULL)
	{
		row->length = row->tuple->t_len;
		return !HeapTupleHasExternal(row->tuple) &&
			row->length <= TOAST_TUPLE_THRESHOLD;
	}
	if (row->minimal != NULL)
	{
		row->length = row->minimal->t_len + MINIMAL_TUPLE_OFFSET;
		return (row->minimal->t_infomask & HEAP_HASEXTERNAL) == 0 &&
			row->length <= TOAST_TUPLE_THRESHOLD;
	}
	return measure_values(row);
}

/*
 * Mirrors heap_form_tuple() in heaptuple.c; the descriptor is the row's, as when core
 * copies it, and may allow shorter values than the table's.
 */
static bool
measure_values(LaInsertRow *row)
{
	TupleTableSlot *slot = row->slot;
	TupleDesc	descriptor = slot->tts_tupleDescriptor;

	slot_getallattrs(slot);
	for (int i = 0; i < descriptor->natts && !row->has_null; i++)
		row->has_null = slot->tts_isnull[i];
	row->header = SizeofHeapTupleHeader;
	if (row->has_null)
		row->header += BITMAPLEN(descriptor->natts);
	row->header = MAXALIGN(row->header);
	row->length = row->header +
		heap_compute_data_size(descriptor, slot->tts_values, slot->tts_isnull);
	return row->length <= TOAST_TUPLE_THRESHOLD;
}

/*
 * Forms the row, whose length has been measured, at a place of as many zeroes.  False when
 * a value turns out to be toasted, elsewhere: then the place must be given up.
 */
bool
la_insert_row_form(const LaInsertRow *row, HeapTupleHeader place)
{
	if (row->tuple != NULL)
		memcpy(place, row->tuple->t_data, row->length);
	else if (row->minimal != NULL)
	{
		/* mirrors heap_tuple_from_minimal_tuple() in heaptuple.c */
		memcpy((char *) place + MINIMAL_TUPLE_OFFSET, row->minimal,
			   row->minimal->t_len);
		memset(place, 0, offsetof(HeapTupleHeaderData, t_infomask2));
	}
	else
		return form_values(row, place);
	return true;
}

/*
 * Mirrors heap_form_tuple() in heaptuple.c.
 */
static bool
form_values(const LaInsertRow *row, HeapTupleHeader place)
{
	TupleTableSlot *slot = row->slot;
	TupleDesc	descriptor = slot->tts_tupleDescriptor;

	HeapTupleHeaderSetNatts(place, descriptor->natts);
	place->t_hoff = row->header;
	heap_fill_tuple(descriptor, slot->tts_values, slot->tts_isnull,
					(char *) place + row->header, row->length - row->header,
					&place->t_infomask, row->has_null ? place->t_bits : NULL);
	return (place->t_infomask & HEAP_HASEXTERNAL) == 0;
}
