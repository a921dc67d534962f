/*-------------------------------------------------------------------------
 *
 * la_insert_wide.c
 *	  rows whose values must be toasted
 *
 * For pages that core fills, core toasts.  For a page of ours it is done before the row is
 * put on its image.  Mirrors heap_prepare_insert() in heapam.c.
 *
 * Logical decoding keeps toasted values in memory until the row comes that they belong to: in
 * its queue, and again when it replays the transaction, whatever logical_decoding_work_mem
 * says.  A page may take hundreds of rows, and so gigabytes of values, until it is full.
 * Rows of tables that are decoded are therefore toasted by core, each just before it is inserted.
 * Relies on ReorderBufferToastAppendChunk() in reorderbuffer.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heaptoast.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "bulk_insert/page/la_insert_wide.h"

pg_noreturn static void refuse(const HeapTupleData *tuple);

/*
 * May rows of a table be toasted that are not inserted at once?
 */
bool
la_insert_may_toast(Relation table)
{
	return !RelationIsLogicallyLogged(table);
}

/*
 * Toasts a row of a table and adds it to a batch for it, which is flushed before if there
 * is no room; options are those of heap_insert().
 */
void
la_insert_add_wide(LaInsertBatch *batch, TupleTableSlot *row, int options,
				   LaInsertFlush flush, void *arg)
{
	HeapTuple	tuple = la_insert_toast(batch, batch->table, row, options);

	if (la_insert_batch_add_tuple(batch, tuple->t_data, tuple->t_len) ==
		LA_INSERT_FULL)
	{
		flush(arg);
		la_insert_batch_add_tuple(batch, tuple->t_data, tuple->t_len);
	}
	batch->image.toasted |= HeapTupleHasExternal(tuple);
	MemoryContextReset(batch->row_context);
}

/*
 * Toasts a row of a table.  Returns a tuple in the batch's memory of one row.
 */
HeapTuple
la_insert_toast(LaInsertBatch *batch, Relation table, TupleTableSlot *row,
				int options)
{
	MemoryContext caller;
	HeapTuple	tuple;

	if (batch->row_context == NULL)
		batch->row_context = AllocSetContextCreate(batch->context,
												   "pg_lookahead insert: row",
												   ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(batch->row_context);
	tuple = heap_toast_insert_or_update(table, ExecCopySlotHeapTuple(row), NULL,
										options);
	MemoryContextSwitchTo(caller);
	if (MAXALIGN(tuple->t_len) > MaxHeapTupleSize)
		refuse(tuple);
	return tuple;
}

/*
 * Mirrors the error of RelationGetBufferForTuple() in hio.c.
 */
static void
refuse(const HeapTupleData *tuple)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("row is too big: size %zu, maximum size %zu",
					(Size) MAXALIGN(tuple->t_len), MaxHeapTupleSize)));
}
