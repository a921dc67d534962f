/*-------------------------------------------------------------------------
 *
 * la_insert_batch.c
 *	  rows that wait for their insertion
 *
 * A row is formed once, straight into an image of the page that it will be on.
 * One that comes as a tuple (of a scan that projects nothing, of a sort) is
 * copied as it is.  Until it is known which page it will be, the rows have no
 * place, and until they are inserted, no transaction.
 *
 * Which rows go on an image mirrors RelationGetBufferForTuple() in hio.c and
 * heap_multi_insert() in heapam.c, for an empty page.  Reads PageHeaderData of bufpage.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heaptoast.h"
#include "access/xact.h"
#include "storage/bufpage.h"
#include "utils/memutils.h"

#include "bulk_insert/la_insert_batch.h"

/*
 * A row before it is on the page.
 */
typedef struct Row
{
	Size		length;
	Size		header;			/* bytes of it before the first value */
	bool		has_null;
} Row;

static void clear_page(PageHeader page);
static bool has_room(const LaInsertBatch *batch, Size length);
static HeapTuple place(LaInsertBatch *batch, Size length);
static void take_back(LaInsertBatch *batch);
static LaInsertRoom add_values(LaInsertBatch *batch, TupleTableSlot *row);
static Row	measure(TupleDesc descriptor, const TupleTableSlot *row);
static LaInsertRoom add_minimal(LaInsertBatch *batch, TupleTableSlot *row);

/*
 * A batch for this table, in the current context.
 */
LaInsertBatch *
la_insert_batch_begin(Relation table)
{
	LaInsertBatch *batch = palloc_object(LaInsertBatch);

	memset(batch, 0, offsetof(LaInsertBatch, tuples));
	batch->table = table;
	batch->spare = RelationGetTargetPageFreeSpace(table,
												  HEAP_DEFAULT_FILLFACTOR);
	batch->context = CurrentMemoryContext;
	batch->row_context = AllocSetContextCreate(CurrentMemoryContext,
											   "pg_lookahead insert: row",
											   ALLOCSET_DEFAULT_SIZES);
	batch->image = palloc_aligned(BLCKSZ, PG_IO_ALIGN_SIZE, 0);
	PageInit(batch->image, BLCKSZ, 0);
	return batch;
}

/*
 * Adds a row, which has the table's row type.  Whether its values have to be
 * toasted mirrors heap_prepare_insert() in heapam.c.
 */
LaInsertRoom
la_insert_batch_add(LaInsertBatch *batch, TupleTableSlot *row)
{
	HeapTuple	tuple = NULL;

	if (TTS_IS_MINIMALTUPLE(row))
		return add_minimal(batch, row);
	if (TTS_IS_HEAPTUPLE(row))
		tuple = ((HeapTupleTableSlot *) row)->tuple;
	else if (TTS_IS_BUFFERTUPLE(row))
		tuple = ((BufferHeapTupleTableSlot *) row)->base.tuple;

	/* One that was filled with values has no tuple. */
	if (tuple == NULL)
		return add_values(batch, row);
	if (HeapTupleHasExternal(tuple) || tuple->t_len > TOAST_TUPLE_THRESHOLD)
		return LA_INSERT_WIDE;
	return la_insert_batch_add_tuple(batch, tuple);
}

/*
 * Adds a row that is a tuple, of any length, and needs no toasting.
 */
LaInsertRoom
la_insert_batch_add_tuple(LaInsertBatch *batch, HeapTuple tuple)
{
	if (!has_room(batch, tuple->t_len))
		return LA_INSERT_FULL;
	memcpy(place(batch, tuple->t_len)->t_data, tuple->t_data, tuple->t_len);
	return LA_INSERT_ADDED;
}

/*
 * Adds a row that is a minimal tuple.  Mirrors heap_tuple_from_minimal_tuple() in
 * heaptuple.c.
 */
static LaInsertRoom
add_minimal(LaInsertBatch *batch, TupleTableSlot *row)
{
	MinimalTuple minimal = ((MinimalTupleTableSlot *) row)->mintuple;
	HeapTupleHeader header;
	Size		length;

	if (minimal == NULL)
		return add_values(batch, row);
	length = minimal->t_len + MINIMAL_TUPLE_OFFSET;
	if ((minimal->t_infomask & HEAP_HASEXTERNAL) ||
		length > TOAST_TUPLE_THRESHOLD)
		return LA_INSERT_WIDE;
	if (!has_room(batch, length))
		return LA_INSERT_FULL;
	header = place(batch, length)->t_data;
	memcpy((char *) header + MINIMAL_TUPLE_OFFSET, minimal, minimal->t_len);
	memset(header, 0, offsetof(HeapTupleHeaderData, t_infomask2));
	return LA_INSERT_ADDED;
}

/*
 * Adds a row that is values.  Mirrors heap_form_tuple() in heaptuple.c; the descriptor is
 * the row's, as when core copies it, and may allow shorter values than the
 * table's.
 */
static LaInsertRoom
add_values(LaInsertBatch *batch, TupleTableSlot *row)
{
	TupleDesc	descriptor = row->tts_tupleDescriptor;
	HeapTupleHeader header;
	Row			form;

	slot_getallattrs(row);
	form = measure(descriptor, row);
	if (form.length > TOAST_TUPLE_THRESHOLD)
		return LA_INSERT_WIDE;
	if (!has_room(batch, form.length))
		return LA_INSERT_FULL;

	header = place(batch, form.length)->t_data;
	HeapTupleHeaderSetNatts(header, descriptor->natts);
	header->t_hoff = form.header;
	heap_fill_tuple(descriptor, row->tts_values, row->tts_isnull,
					(char *) header + form.header, form.length - form.header,
					&header->t_infomask, form.has_null ? header->t_bits : NULL);
	if (header->t_infomask & HEAP_HASEXTERNAL)
	{
		take_back(batch);
		return LA_INSERT_WIDE;
	}
	return LA_INSERT_ADDED;
}

static Row
measure(TupleDesc descriptor, const TupleTableSlot *row)
{
	Row			form = {0};

	for (int i = 0; i < descriptor->natts && !form.has_null; i++)
		form.has_null = row->tts_isnull[i];
	form.header = SizeofHeapTupleHeader;
	if (form.has_null)
		form.header += BITMAPLEN(descriptor->natts);
	form.header = MAXALIGN(form.header);
	form.length = form.header + heap_compute_data_size(descriptor,
													   row->tts_values,
													   row->tts_isnull);
	return form;
}

/*
 * Is there room for a row?  On an empty page there always is, whatever the
 * fillfactor.
 */
static bool
has_room(const LaInsertBatch *batch, Size length)
{
	if (batch->rows == 0)
		return MAXALIGN(length) <= MaxHeapTupleSize;
	return PageGetHeapFreeSpace(batch->image) >=
		MAXALIGN(length) + batch->spare;
}

/*
 * Gives a row, for which there is room, its place: as many zeroes as it has
 * bytes.  Mirrors PageAddItemExtended() in bufpage.c, for a page without unused
 * line pointers.
 */
static HeapTuple
place(LaInsertBatch *batch, Size length)
{
	PageHeader	page = (PageHeader) batch->image;
	HeapTuple	tuple = &batch->tuples[batch->rows++];

	page->pd_lower += sizeof(ItemIdData);
	page->pd_upper -= MAXALIGN(length);
	ItemIdSetNormal(PageGetItemId(batch->image, batch->rows), page->pd_upper,
					length);
	tuple->t_len = length;
	tuple->t_data = (HeapTupleHeader) (batch->image + page->pd_upper);
	tuple->t_tableOid = RelationGetRelid(batch->table);
	ItemPointerSetInvalid(&tuple->t_self);
	return tuple;
}

/*
 * Removes the row that was placed last.
 */
static void
take_back(LaInsertBatch *batch)
{
	PageHeader	page = (PageHeader) batch->image;
	Size		length = MAXALIGN(batch->tuples[--batch->rows].t_len);

	memset(batch->image + page->pd_upper, 0, length);
	page->pd_upper += length;
	page->pd_lower -= sizeof(ItemIdData);
	memset(batch->image + page->pd_lower, 0, sizeof(ItemIdData));
}

/*
 * A slot for each row, of its tuple on the image.  They have a descriptor of their
 * own, which need not be remembered once for each slot.
 */
TupleTableSlot **
la_insert_batch_slots(LaInsertBatch *batch)
{
	MemoryContext caller = MemoryContextSwitchTo(batch->context);

	if (batch->descriptor == NULL)
		batch->descriptor = CreateTupleDescCopy(RelationGetDescr(batch->table));
	for (int i = 0; i < batch->rows; i++)
	{
		if (batch->slots[i] == NULL)
			batch->slots[i] = MakeSingleTupleTableSlot(batch->descriptor,
													   &TTSOpsHeapTuple);
		ExecStoreHeapTuple(&batch->tuples[i], batch->slots[i], false);
		batch->slots[i]->tts_tableOid = RelationGetRelid(batch->table);
	}
	MemoryContextSwitchTo(caller);
	return batch->slots;
}

/*
 * How many bytes of a page the rows take, without their line pointers.
 */
Size
la_insert_batch_bytes(const LaInsertBatch *batch)
{
	return BLCKSZ - ((PageHeader) batch->image)->pd_upper;
}

/*
 * How many bytes one of the rows, of which there is one at least, needs on another page,
 * in the mean.  No more than an empty page has, whatever the fillfactor.
 */
Size
la_insert_batch_mean(const LaInsertBatch *batch)
{
	Size		mean = la_insert_batch_bytes(batch) / batch->rows;

	return Min(mean + sizeof(ItemIdData) + batch->spare, MaxHeapTupleSize);
}

/*
 * The rows get their places on a page, and their transaction.  Mirrors
 * heap_prepare_insert() in heapam.c and RelationPutHeapTuple() in hio.c.  Frozen
 * rows are seen by everybody who can see the table's file.
 */
void
la_insert_batch_place(LaInsertBatch *batch, BlockNumber block, CommandId cid,
					  bool frozen)
{
	TransactionId xid = GetCurrentTransactionId();

	for (int i = 0; i < batch->rows; i++)
	{
		HeapTuple	tuple = &batch->tuples[i];
		HeapTupleHeader header = tuple->t_data;

		ItemPointerSet(&tuple->t_self, block, i + 1);
		header->t_infomask &= ~HEAP_XACT_MASK;
		header->t_infomask2 &= ~HEAP2_XACT_MASK;
		header->t_infomask |= HEAP_XMAX_INVALID;
		HeapTupleHeaderSetXmin(header, xid);
		if (frozen)
			HeapTupleHeaderSetXminFrozen(header);
		HeapTupleHeaderSetCmin(header, cid);
		HeapTupleHeaderSetXmax(header, 0);
		header->t_ctid = tuple->t_self;
	}
}

/*
 * Forgets the rows, which have been inserted, and goes on with this image, whose
 * content does not matter.
 */
void
la_insert_batch_reset(LaInsertBatch *batch, Page image)
{
	for (int i = 0; i < batch->rows && batch->slots[i] != NULL; i++)
		ExecClearTuple(batch->slots[i]);
	if (image == batch->image)
		clear_page((PageHeader) image);
	else
		PageInit(image, BLCKSZ, 0);
	batch->rows = 0;
	batch->toasted = false;
	batch->image = image;
}

/*
 * Makes a page as PageInit() would, which clears what is clear already, too.
 */
static void
clear_page(PageHeader page)
{
	memset((char *) page + SizeOfPageHeaderData, 0,
		   page->pd_lower - SizeOfPageHeaderData);
	memset((char *) page + page->pd_upper, 0, BLCKSZ - page->pd_upper);
	page->pd_lower = SizeOfPageHeaderData;
	page->pd_upper = BLCKSZ;
}
