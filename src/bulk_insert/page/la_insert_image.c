/*-------------------------------------------------------------------------
 *
 * la_insert_image.c
 *	  rows on a private image of the page that they will be on
 *
 * A row is formed once, straight where it will wait for its insertion: on an image, or in a
 * pool.  One that comes as a tuple (of a scan that projects nothing, of a sort) is copied as it
 * is.  Until it is known which page an image will be, its rows have no place, and until they
 * are inserted, no transaction.  What is between line pointers and rows is cleared when it
 * becomes a page.
 *
 * Which rows go on an image mirrors RelationGetBufferForTuple() in hio.c and
 * heap_multi_insert() in heapam.c, for an empty page.  Reads PageHeaderData of bufpage.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heaptoast.h"
#include "access/htup_details.h"

#include "bulk_insert/page/la_insert_image.h"

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
 *
 * Of values it mirrors heap_form_tuple() in heaptuple.c; the descriptor is the row's, as when
 * core copies it, and may allow shorter values than the table's.
 */
bool
la_insert_row_measure(LaInsertRow *row, TupleTableSlot *slot)
{
	TupleDesc	descriptor = slot->tts_tupleDescriptor;
	bool		toasted = false;

	*row = (LaInsertRow)
	{
		.slot = slot,.tuple = tuple_of(slot),.minimal = minimal_of(slot)
	};
	if (row->tuple != NULL)
	{
		row->length = row->tuple->t_len;
		toasted = HeapTupleHasExternal(row->tuple);
	}
	else if (row->minimal != NULL)
	{
		row->length = row->minimal->t_len + MINIMAL_TUPLE_OFFSET;
		toasted = (row->minimal->t_infomask & HEAP_HASEXTERNAL) != 0;
	}
	else
	{
		slot_getallattrs(slot);
		for (int i = 0; i < descriptor->natts && !row->has_null; i++)
			row->has_null = slot->tts_isnull[i];
		row->header = SizeofHeapTupleHeader;
		if (row->has_null)
			row->header += BITMAPLEN(descriptor->natts);
		row->header = MAXALIGN(row->header);
		row->length = row->header +
			heap_compute_data_size(descriptor, slot->tts_values, slot->tts_isnull);
	}
	return !toasted && row->length <= TOAST_TUPLE_THRESHOLD;
}

/*
 * Forms the row, whose length has been measured, at a place of as many zeroes.  False when
 * a value turns out to be toasted, elsewhere: then the place must be given up.  Mirrors
 * heap_tuple_from_minimal_tuple() and heap_form_tuple() in heaptuple.c.
 */
bool
la_insert_row_form(const LaInsertRow *row, HeapTupleHeader place)
{
	TupleTableSlot *slot = row->slot;
	TupleDesc	descriptor = slot->tts_tupleDescriptor;

	if (row->tuple != NULL)
		memcpy(place, row->tuple->t_data, row->length);
	else if (row->minimal != NULL)
	{
		memcpy((char *) place + MINIMAL_TUPLE_OFFSET, row->minimal,
			   row->minimal->t_len);
		memset(place, 0, offsetof(HeapTupleHeaderData, t_infomask2));
	}
	else
	{
		HeapTupleHeaderSetNatts(place, descriptor->natts);
		place->t_hoff = row->header;
		heap_fill_tuple(descriptor, slot->tts_values, slot->tts_isnull,
						(char *) place + row->header, row->length - row->header,
						&place->t_infomask, row->has_null ? place->t_bits : NULL);
	}
	return (place->t_infomask & HEAP_HASEXTERNAL) == 0;
}

/*
 * Forgets the rows, and goes on with this page of memory, whose content does not matter.
 * Mirrors PageInit() in bufpage.c, but between line pointers and rows.
 */
void
la_insert_image_clear(LaInsertImage *image, Page memory)
{
	PageHeader	page = (PageHeader) memory;

	memset(page, 0, SizeOfPageHeaderData);
	page->pd_lower = SizeOfPageHeaderData;
	page->pd_upper = BLCKSZ;
	page->pd_special = BLCKSZ;
	PageSetPageSizeAndVersion(memory, BLCKSZ, PG_PAGE_LAYOUT_VERSION);
	image->page = memory;
	image->rows = 0;
	image->toasted = false;
}

/*
 * Is there room for a row?  On an empty page there always is, whatever the
 * fillfactor.
 */
static bool
has_room(const LaInsertImage *image, Size spare, Size length)
{
	if (image->rows == 0)
		return MAXALIGN(length) <= MaxHeapTupleSize;
	return PageGetHeapFreeSpace(image->page) >= MAXALIGN(length) + spare;
}

/*
 * Gives a row, for which there is room, its place, whose content does not matter.  Mirrors
 * PageAddItemExtended() in bufpage.c, for a page without unused line pointers.
 */
static char *
take_place(LaInsertImage *image, Size length)
{
	PageHeader	page = (PageHeader) image->page;

	if (image->line != NULL)
		image->lines[image->rows] = *image->line;
	page->pd_lower += sizeof(ItemIdData);
	page->pd_upper -= MAXALIGN(length);
	image->rows++;
	ItemIdSetNormal(PageGetItemId(image->page, image->rows), page->pd_upper,
					length);
	return image->page + page->pd_upper;
}

/*
 * Adds a row, which has the table's row type, where so many bytes are spared on a page.
 */
LaInsertRoom
la_insert_image_add(LaInsertImage *image, Size spare, TupleTableSlot *slot)
{
	LaInsertRow row;
	char	   *at;

	if (!la_insert_row_measure(&row, slot))
		return LA_INSERT_WIDE;
	if (!has_room(image, spare, row.length))
		return LA_INSERT_FULL;
	at = take_place(image, row.length);
	memset(at, 0, MAXALIGN(row.length));
	if (!la_insert_row_form(&row, (HeapTupleHeader) at))
	{
		PageHeader	page = (PageHeader) image->page;

		page->pd_upper += MAXALIGN(row.length);
		page->pd_lower -= sizeof(ItemIdData);
		image->rows--;
		return LA_INSERT_WIDE;
	}
	return LA_INSERT_ADDED;
}

/*
 * Adds a row that is a tuple of so many bytes, and needs no more toasting.
 */
LaInsertRoom
la_insert_image_add_tuple(LaInsertImage *image, Size spare,
						  const HeapTupleHeaderData *tuple, Size length)
{
	char	   *at;

	if (!has_room(image, spare, length))
		return LA_INSERT_FULL;
	at = take_place(image, length);
	memcpy(at, tuple, length);
	memset(at + length, 0, MAXALIGN(length) - length);
	image->toasted |= (tuple->t_infomask & HEAP_HASEXTERNAL) != 0;
	return LA_INSERT_ADDED;
}

/*
 * How many bytes of a page the rows take, without their line pointers.
 */
Size
la_insert_image_bytes(const LaInsertImage *image)
{
	return BLCKSZ - ((PageHeader) image->page)->pd_upper;
}
