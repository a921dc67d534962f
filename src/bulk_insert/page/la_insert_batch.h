/*-------------------------------------------------------------------------
 *
 * la_insert_batch.h
 *	  the rows of one page: as tuples, toasted, written and logged
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_BATCH_H
#define LA_INSERT_BATCH_H

#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "bulk_insert/page/la_insert_image.h"

/*
 * As many rows as go on one page.
 */
typedef struct LaInsertBatch
{
	Relation	table;
	Size		spare;			/* bytes to leave free on a page: fillfactor */
	MemoryContext context;		/* of the batch and its slots */
	MemoryContext row_context;	/* of a row that is toasted, or NULL */
	LaInsertImage image;

	int			room;			/* for tuples */
	HeapTuple	tuples;			/* on the image, once read */

	/* Room for a slot for each row, made as they are wanted first; or NULL. */
	TupleDesc	descriptor;
	TupleTableSlot **slots;
} LaInsertBatch;

extern LaInsertBatch *la_insert_batch_begin(Relation table,
											const uint64 *line);
extern void la_insert_batch_retarget(LaInsertBatch *batch, Relation table);
extern void la_insert_batch_make_tuples(LaInsertBatch *batch);
extern TupleTableSlot **la_insert_batch_slots(LaInsertBatch *batch);
extern Size la_insert_batch_mean(const LaInsertBatch *batch);
extern void la_insert_batch_place(LaInsertBatch *batch, BlockNumber block,
								  CommandId cid, bool frozen);
extern void la_insert_batch_reset(LaInsertBatch *batch, Page page);

extern bool la_insert_may_toast(Relation table);
extern HeapTuple la_insert_toast(LaInsertBatch *batch, Relation table,
								 TupleTableSlot *row, int options);

extern XLogRecPtr la_insert_batch_log_page(Relation table, BlockNumber block,
										   Page page, Buffer buffer);
extern void la_insert_batch_write(LaInsertBatch *batch, Buffer buffer,
								  CommandId cid);

#endif							/* LA_INSERT_BATCH_H */
