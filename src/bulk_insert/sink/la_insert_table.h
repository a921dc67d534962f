/*-------------------------------------------------------------------------
 *
 * la_insert_table.h
 *	  the table of a statement that inserts rows, partitioned or not
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_TABLE_H
#define LA_INSERT_TABLE_H

#include "bulk_insert/sink/la_insert_route.h"

typedef struct LaInsertTable
{
	ResultRelInfo *root;
	LaInsertCommon common;
	TupleTableSlot *copy;		/* of a row, or NULL */
	uint64		rows;			/* that are inserted, or wait */
	uint64		flushed;		/* so many were, when none waited last */
	LaInsertTarget target;		/* where it is not partitioned */
	LaInsertRoute *route;		/* to its partitions, or NULL */
} LaInsertTable;

extern void la_insert_table_begin(LaInsertTable *table, ModifyTableState *node);
extern bool la_insert_table_insert(LaInsertTable *table, TupleTableSlot *row);
extern void la_insert_table_collect(LaInsertTable *table, LaCounters *counters,
									bool runs_user_code, double bytes);
extern bool la_insert_table_add(LaInsertTable *table, TupleTableSlot *row);
extern void la_insert_table_interrupt(LaInsertTable *table);
extern void la_insert_table_end(LaInsertTable *table);

#endif							/* LA_INSERT_TABLE_H */
