/*-------------------------------------------------------------------------
 *
 * la_insert_target.h
 *	  the table that rows are inserted into
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_TARGET_H
#define LA_INSERT_TARGET_H

#include "nodes/execnodes.h"

#include "bulk_insert/la_insert_batch.h"
#include "bulk_insert/la_insert_extent.h"
#include "bulk_insert/la_insert_file.h"
#include "bulk_insert/la_insert_index.h"

typedef struct LaInsertTarget
{
	EState	   *estate;
	ResultRelInfo *relation;
	TupleTableSlot *generated;	/* a row with generated columns, or NULL */

	/* Once rows are collected. */
	bool		runs_user_code; /* can functions use the table, too? */
	LaCounters *counters;
	MemoryContext flush_context;
	LaInsertBatch *batch;
	uint64		bytes;			/* of rows inserted in batches */
	LaInsertExtent extent;
	LaInsertFile *file;			/* to which pages are appended, or NULL */
	LaInsertIndexes *indexes;	/* whose entries are collected, or NULL */
	bool		expects_many_rows;	/* has the threshold been passed? */
} LaInsertTarget;

extern void la_insert_target_begin(LaInsertTarget *target, EState *estate,
								   ResultRelInfo *relation);
extern TupleTableSlot *la_insert_target_check(LaInsertTarget *target,
											  TupleTableSlot *row);
extern void la_insert_target_insert(LaInsertTarget *target,
									TupleTableSlot *row);
extern void la_insert_target_collect(LaInsertTarget *target,
									 LaCounters *counters, double bytes);
extern void la_insert_target_add(LaInsertTarget *target, TupleTableSlot *row);
extern void la_insert_target_flush(LaInsertTarget *target);
extern void la_insert_target_end(LaInsertTarget *target);

#endif							/* LA_INSERT_TARGET_H */
