/*-------------------------------------------------------------------------
 *
 * la_insert_batch.c
 *	  rows that wait for their insertion
 *
 * The rows of one page, on an image of it (la_insert_image.c), and as tuples: while they
 * are inserted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "bulk_insert/page/la_insert_batch.h"

/* As many rows as many a statement has: arbitrary. */
#define FEW_ROWS 8

/*
 * A batch for this table, in the current context; "line" as for la_insert_image_begin().
 */
LaInsertBatch *
la_insert_batch_begin(Relation table, const uint64 *line)
{
	LaInsertBatch *batch = palloc0_object(LaInsertBatch);

	la_insert_batch_retarget(batch, table);
	batch->context = CurrentMemoryContext;
	la_insert_image_begin(&batch->image,
						  palloc_aligned(BLCKSZ, PG_IO_ALIGN_SIZE, 0), line);
	return batch;
}

/*
 * The batch, which is empty, is for this table from now on.
 */
void
la_insert_batch_retarget(LaInsertBatch *batch, Relation table)
{
	Assert(batch->image.rows == 0);
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
	return la_insert_image_add(&batch->image, batch->spare, slot);
}

/*
 * Adds a row that is a tuple of so many bytes, and needs no toasting.
 */
LaInsertRoom
la_insert_batch_add_tuple(LaInsertBatch *batch, const HeapTupleHeaderData *tuple,
						  Size length)
{
	return la_insert_image_add_tuple(&batch->image, batch->spare, tuple, length);
}

/*
 * The batch, whose rows are complete, gets their tuples.  Room for those of a page is not made
 * for a few.
 */
void
la_insert_batch_read(LaInsertBatch *batch)
{
	int			rows = batch->image.rows;

	if (rows > batch->room)
	{
		if (batch->tuples != NULL)
			pfree(batch->tuples);
		batch->room = rows <= FEW_ROWS ? FEW_ROWS : MaxHeapTuplesPerPage;
		batch->tuples = MemoryContextAlloc(batch->context,
										   batch->room * sizeof(HeapTupleData));
	}
	la_insert_image_read(&batch->image, RelationGetRelid(batch->table),
						 batch->tuples);
}

/*
 * A slot for each row, of its tuple on the image.  They have a descriptor of their
 * own, which need not be remembered once for each slot.
 */
TupleTableSlot **
la_insert_batch_slots(LaInsertBatch *batch)
{
	MemoryContext caller = MemoryContextSwitchTo(batch->context);

	if (batch->slots == NULL)
	{
		batch->descriptor = CreateTupleDescCopy(RelationGetDescr(batch->table));
		batch->slots = palloc0_array(TupleTableSlot *, MaxHeapTuplesPerPage);
	}
	for (int i = 0; i < batch->image.rows; i++)
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
 * How many bytes one of the rows, of which there is one at least, needs on another page,
 * in the mean.  No more than an empty page has, whatever the fillfactor.
 */
Size
la_insert_batch_mean(const LaInsertBatch *batch)
{
	Size		mean = la_insert_image_bytes(&batch->image) / batch->image.rows;

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

	for (int i = 0; i < batch->image.rows; i++)
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
	la_insert_image_complete(&batch->image);
}

/*
 * Forgets the rows, which have been inserted, and goes on with this page, whose
 * content does not matter.
 */
void
la_insert_batch_reset(LaInsertBatch *batch, Page page)
{
	for (int i = 0; batch->slots != NULL && i < batch->image.rows &&
		 batch->slots[i] != NULL; i++)
		ExecClearTuple(batch->slots[i]);
	la_insert_image_clear(&batch->image, page);
}
