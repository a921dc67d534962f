/*-------------------------------------------------------------------------
 *
 * la_insert_target.h
 *	  the table that rows are inserted into
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_TARGET_H
#define LA_INSERT_TARGET_H

#include "access/heapam.h"
#include "nodes/execnodes.h"

#include "bulk_insert/entries/la_insert_index.h"
#include "bulk_insert/la_insert_feature.h"
#include "bulk_insert/page/la_insert_batch.h"
#include "bulk_insert/page/la_insert_extent.h"

/* Where a row is in a pool, in units of MAXIMUM_ALIGNOF bytes. */
typedef uint32 LaInsertPlace;

/*
 * The rows of one table that wait in a pool, in order; all zeroes when there are none.
 */
typedef struct LaInsertQueue
{
	LaInsertPlace first;
	LaInsertPlace last;
	uint32		rows;
	Size		bytes;			/* that they take on pages */
} LaInsertQueue;

/*
 * What the tables of one statement have in common.
 */
typedef struct LaInsertCommon
{
	EState	   *estate;

	/*
	 * The line of the input that errors are about, and whether they quote it:
	 * COPY's.  NULL otherwise.
	 */
	uint64	   *line;
	bool	   *quotes_line;

	/* Once rows are collected. */
	bool		runs_user_code; /* can functions use a table, too? */
	LaCounters *counters;
	MemoryContext flush_context;
	LaInsertBatch *batch;		/* of the table that is filled */
	BufferAccessStrategy strategy;	/* of pages of ours, or NULL */
	uint64		bytes;			/* of rows inserted in batches */
} LaInsertCommon;

typedef struct LaInsertTarget
{
	LaInsertCommon *common;
	ResultRelInfo *relation;
	TupleConversionMap *map;	/* from rows of the statement's table, or NULL */
	Oid			oid;			/* of the table */
	bool		has_constraints;
	bool		checks_values;	/* by a CHECK, of rows without generated
								 * columns */
	bool		checks_bounds;	/* of a partition that rows are not routed to */
	TupleTableSlot *generated;	/* a row with generated columns, or NULL */
	TupleTableSlot *single;		/* a row that is inserted at once, or NULL */

	/* Once rows are collected. */
	Size		spare;			/* as of LaInsertBatch */
	LaInsertQueue queue;		/* rows that wait in a pool */
	int			number;			/* among the partitions of its route */
	LaInsertExtent extent;
	BulkInsertState bulk;		/* of pages of core's, as COPY has it, or NULL */
	TupleTableSlot *inserted;	/* a row that is in the table, or NULL */
	LaInsertIndexes *indexes;	/* whose entries are collected, or NULL */
} LaInsertTarget;

/*
 * Has enough been inserted for pages of ours?
 */
static inline bool
la_insert_past_threshold(const LaInsertCommon *common)
{
	return common->bytes >= la_insert_threshold();
}

extern void la_insert_target_begin(LaInsertTarget *target,
								   LaInsertCommon *common,
								   ResultRelInfo *relation);
extern TupleTableSlot *la_insert_target_check(LaInsertTarget *target,
											  TupleTableSlot *row);
extern TupleTableSlot *la_insert_target_form(LaInsertTarget *target,
											 TupleTableSlot *row);
extern void la_insert_target_insert(LaInsertTarget *target,
									TupleTableSlot *row);
extern void la_insert_target_collect(LaInsertTarget *target);
extern bool la_insert_target_has_followers(const LaInsertTarget *target);
extern bool la_insert_target_ensure_page(LaInsertTarget *target,
										 Size row_length);
extern void la_insert_target_flush_page(LaInsertTarget *target);
extern void la_insert_target_flush_rest(LaInsertTarget *target);
extern bool la_insert_target_fills_extension(const LaInsertTarget *target);
extern void la_insert_target_unpin(LaInsertTarget *target);
extern void la_insert_target_expect(LaInsertTarget *target, uint32 pages,
									uint32 most);
extern void la_insert_target_end_bulk(LaInsertTarget *target);
extern void la_insert_target_end(LaInsertTarget *target);

#endif							/* LA_INSERT_TARGET_H */
