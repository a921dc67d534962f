/*-------------------------------------------------------------------------
 *
 * la_insert_batch.h
 *	  rows that wait for their insertion
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_BATCH_H
#define LA_INSERT_BATCH_H

#include "access/htup_details.h"
#include "executor/tuptable.h"
#include "utils/rel.h"

/*
 * As many rows as go on one page, formed on a private image of it.
 */
typedef struct LaInsertBatch
{
	Relation	table;
	Size		spare;			/* bytes to leave free on a page: fillfactor */
	MemoryContext context;		/* of the batch and its slots */
	MemoryContext row_context;	/* of a row that is toasted */
	Page		image;
	bool		toasted;		/* has it rows that were toasted before? */
	int			rows;

	/* Of the row to add, and of each: the line of the input it comes from. */
	uint64		line;
	uint64		lines[MaxHeapTuplesPerPage];

	/* A slot for each row, made when one is wanted first. */
	TupleDesc	descriptor;
	TupleTableSlot *slots[MaxHeapTuplesPerPage];

	/* Last, because it is large and need not be initialised. */
	HeapTupleData tuples[MaxHeapTuplesPerPage]; /* on the image, in order */
} LaInsertBatch;

typedef enum LaInsertRoom
{
	LA_INSERT_ADDED,
	LA_INSERT_FULL,				/* not added: no room on the page */
	LA_INSERT_WIDE,				/* not added: values must be toasted first */
} LaInsertRoom;

extern LaInsertBatch *la_insert_batch_begin(Relation table);
extern void la_insert_batch_retarget(LaInsertBatch *batch, Relation table);
extern LaInsertRoom la_insert_batch_add(LaInsertBatch *batch,
										TupleTableSlot *slot);
extern LaInsertRoom la_insert_batch_add_tuple(LaInsertBatch *batch,
											  const HeapTupleHeaderData *tuple,
											  Size length);
extern TupleTableSlot **la_insert_batch_slots(LaInsertBatch *batch);
extern Size la_insert_batch_bytes(const LaInsertBatch *batch);
extern Size la_insert_batch_mean(const LaInsertBatch *batch);
extern void la_insert_batch_place(LaInsertBatch *batch, BlockNumber block,
								  CommandId cid, bool frozen);
extern void la_insert_batch_reset(LaInsertBatch *batch, Page image);

#endif							/* LA_INSERT_BATCH_H */
