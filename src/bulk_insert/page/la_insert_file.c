/*-------------------------------------------------------------------------
 *
 * la_insert_file.c
 *	  rows are appended to a file that this transaction has made
 *
 * A table that was created or truncated in this transaction has a file that
 * nobody else can see, and that is gone if the transaction fails.  Pages are
 * appended to it past shared buffers, as core's bulk writer appends those of an index
 * (bulk_write/).
 *
 * Nobody has such a page in a buffer: it was not part of the file before.  A part of
 * the statement may scan the table meanwhile; it finds pages that are complete, with
 * rows that it does not see.  Statements whose queries or tables name functions of users do not come
 * here, so that nobody inserts into the table meanwhile.  What is called without a name and taken
 * by its word, such as an immutable function of an operator class, could: where that makes
 * the file longer, the page writer raises an error before it writes over a page (bulk_write/).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"

#include "bulk_insert/la_insert_feature.h"
#include "bulk_insert/page/la_insert_batch.h"
#include "bulk_insert/page/la_insert_file.h"
#include "bulk_write/la_page_writer.h"

/*
 * Has this transaction made the table's file?  Reads RelationData of rel.h.
 */
bool
la_insert_file_is_ours(Relation table)
{
	return la_bulk_extend_size > 0 &&
		(table->rd_createSubid != InvalidSubTransactionId ||
		 table->rd_firstRelfilelocatorSubid != InvalidSubTransactionId);
}

/*
 * Logs a page of the file: LaLogPage.
 */
static XLogRecPtr
log_page(void *arg, BlockNumber block, Page page)
{
	LaInsertFile *file = arg;

	return la_insert_batch_log_page(file->batch->table, block, page, InvalidBuffer);
}

/*
 * Starts to append what is collected in a batch, in the batch's memory context.
 */
LaInsertFile *
la_insert_file_begin(LaInsertBatch *batch, CommandId cid, int options,
					 LaCounters *counters)
{
	MemoryContext caller = MemoryContextSwitchTo(batch->context);
	LaInsertFile *file = palloc0_object(LaInsertFile);

	file->batch = batch;
	file->next = RelationGetNumberOfBlocks(batch->table);
	file->cid = cid;
	file->options = options;
	file->counters = counters;
	file->pages = la_page_writer_append(batch->table,
										Min(la_bulk_extend_size, work_mem / (BLCKSZ / 1024)),
										log_page, file);
	MemoryContextSwitchTo(caller);
	return file;
}

/*
 * Appends the batch as a page, and gives it another image.
 */
static void
put_page(LaInsertFile *file)
{
	LaInsertBatch *batch = file->batch;

	CHECK_FOR_INTERRUPTS();
	if (!BlockNumberIsValid(file->next))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot extend relation \"%s\" beyond %u blocks",
						RelationGetRelationName(batch->table),
						MaxBlockNumber)));
	la_insert_batch_make_tuples(batch);
	la_insert_batch_place(batch, file->next, file->cid,
						  (file->options & HEAP_INSERT_FROZEN) != 0);
	CheckForSerializableConflictIn(batch->table, NULL, InvalidBlockNumber);
	la_page_writer_put(file->pages, file->next++, batch->image.page);
	file->counters->rows += batch->image.rows;
	file->counters->batches++;
	file->counters->extended++;
	pgstat_count_heap_insert(batch->table, batch->image.rows);
	la_insert_batch_reset(batch, la_page_writer_get(file->pages));
}

/*
 * Adds a row.  False when it is left to core, and so are those that follow: pages that core
 * fills are in shared buffers.
 */
bool
la_insert_file_add(LaInsertFile *file, TupleTableSlot *row)
{
	LaInsertBatch *batch = file->batch;
	LaInsertRoom room = la_insert_image_add(&batch->image, batch->spare, row);
	HeapTuple	tuple;

	if (room == LA_INSERT_FULL)
	{
		put_page(file);
		room = la_insert_image_add(&batch->image, batch->spare, row);
	}
	if (room != LA_INSERT_WIDE)
		return true;
	if (!la_insert_may_toast(batch->table))
		return false;
	tuple = la_insert_toast(batch, batch->table, row, file->options);
	while (la_insert_image_add_tuple(&batch->image, batch->spare, tuple->t_data,
									 tuple->t_len) == LA_INSERT_FULL)
		put_page(file);
	return true;
}

/*
 * There are no more rows for it.
 */
void
la_insert_file_end(LaInsertFile *file)
{
	if (file->batch->image.rows > 0)
		put_page(file);
	la_page_writer_end(file->pages);
	RelationSetTargetBlock(file->batch->table, file->next - 1);
}
