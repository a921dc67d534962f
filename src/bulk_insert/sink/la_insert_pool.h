/*-------------------------------------------------------------------------
 *
 * la_insert_pool.h
 *	  rows of several tables that wait for their insertion
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_POOL_H
#define LA_INSERT_POOL_H

#include "bulk_insert/page/la_insert_batch.h"

/* Where a row is in a pool, in units of MAXIMUM_ALIGNOF bytes. */
typedef uint32 LaInsertPlace;

/*
 * The rows of one table, in order; all zeroes when there are none.
 */
typedef struct LaInsertQueue
{
	LaInsertPlace first;
	LaInsertPlace last;
	uint32		rows;
	Size		bytes;			/* that they take on pages */
} LaInsertQueue;

/*
 * All rows that wait.
 */
typedef struct LaInsertPool
{
	char	   *memory;
	Size		size;			/* bytes of it */
	Size		used;			/* bytes up to which there are rows, or have
								 * been */
	Size		limit;			/* bytes that it may have */
	const uint64 *line;			/* where the line of the input is told that a
								 * row comes from, or NULL */
	uint64		rows;			/* of all queues */
} LaInsertPool;

extern LaInsertPool *la_insert_pool_begin(const uint64 *line);
extern LaInsertRoom la_insert_pool_add(LaInsertPool *pool,
									   LaInsertQueue *queue,
									   TupleTableSlot *slot);
extern bool la_insert_pool_grow(LaInsertPool *pool, Size wanted);
extern LaInsertRoom la_insert_pool_move_first(LaInsertPool *pool,
											  LaInsertQueue *queue,
											  LaInsertBatch *batch);
extern void la_insert_pool_compact(LaInsertPool *pool);
extern void la_insert_pool_end(LaInsertPool *pool);

#endif							/* LA_INSERT_POOL_H */
