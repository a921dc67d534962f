/*-------------------------------------------------------------------------
 *
 * la_insert_batch.c
 *	  rows that wait for their insertion
 *
 * A row is formed straight into an image of the page that it will be on.  Until it is
 * known which page it will be, the rows have no place, and until they are inserted, no
 * transaction.
 *
 * Which rows go on an image mirrors RelationGetBufferForTuple() in hio.c and
 * heap_multi_insert() in heapam.c, for an empty page.  Reads PageHeaderData of bufpage.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "storage/bufpage.h"
#include "utils/memutils.h"

#include "bulk_insert/la_insert_batch.h"
#include "bulk_insert/la_insert_row.h"

static void clear_page(PageHeader page);
static bool has_room(const LaInsertBatch *batch, Size length);
static HeapTuple place(LaInsertBatch *batch, Size length);
static void take_back(LaInsertBatch *batch);

/*
 * A batch for this table, in the current context.
 */
LaInsertBatch *
la_insert_batch_begin(Relation table)
{
	LaInsertBatch *batch = palloc_object(LaInsertBatch);

	memset(batch, 0, offsetof(LaInsertBatch, tuples));
	la_insert_batch_retarget(batch, table);
	batch->context = CurrentMemoryContext;
	batch->row_context = AllocSetContextCreate(CurrentMemoryContext,
											   "pg_lookahead insert: row",
											   ALLOCSET_DEFAULT_SIZES);
	batch->image = palloc_aligned(BLCKSZ, PG_IO_ALIGN_SIZE, 0);
	PageInit(batch->image, BLCKSZ, 0);
	return batch;
}

/*
 * The batch, which is empty, is for this table from now on.
 */
void
la_insert_batch_retarget(LaInsertBatch *batch, Relation table)
{
	Assert(batch->rows == 0);
	batch->table = table;
	batch->spare = RelationGetTargetPageFreeSpace(table,
												  HEAP_DEFAULT_FILLFACTOR);
}

/*
 * Adds a row, which has the table's row type.
 */
LaInsertRoom
la_insert_batch_add(LaInsertBatch *batch, TupleTableSlot *slot)
{
	LaInsertRow row;

	if (!la_insert_row_measure(&row, slot))
		return LA_INSERT_WIDE;
	if (!has_room(batch, row.length))
		return LA_INSERT_FULL;
	if (!la_insert_row_form(&row, place(batch, row.length)->t_data))
	{
		take_back(batch);
		return LA_INSERT_WIDE;
	}
	return LA_INSERT_ADDED;
}

/*
 * Adds a row that is a tuple of so many bytes, and needs no toasting.
 */
LaInsertRoom
la_insert_batch_add_tuple(LaInsertBatch *batch, const HeapTupleHeaderData *tuple,
						  Size length)
{
	if (!has_room(batch, length))
		return LA_INSERT_FULL;
	memcpy(place(batch, length)->t_data, tuple, length);
	return LA_INSERT_ADDED;
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
	HeapTuple	tuple = &batch->tuples[batch->rows];

	batch->lines[batch->rows++] = batch->line;
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
