/*-------------------------------------------------------------------------
 *
 * la_insert_table.h
 *	  the table of a statement that inserts rows, partitioned or not
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_TABLE_H
#define LA_INSERT_TABLE_H

#include "bulk_insert/page/la_insert_file.h"
#include "bulk_insert/sink/la_insert_route.h"

typedef struct LaInsertTable
{
	ResultRelInfo *root;
	LaInsertCommon common;
	TupleTableSlot *copy;		/* of a row, or NULL */
	uint64		rows;			/* that are inserted, or wait */
	uint64		flushed;		/* so many were, when none waited last */
	LaInsertRoute *route;		/* to its partitions, or NULL */

	/* Where it is not partitioned: */
	LaInsertTarget target;
	bool		expects_many_rows;	/* has the threshold been passed? */
	LaInsertFile *file;			/* to which pages are appended, or NULL */
	bool		left_file;		/* for good: a row was not for it */
} LaInsertTable;

extern void la_insert_table_begin(LaInsertTable *table, ModifyTableState *node);
extern bool la_insert_table_insert(LaInsertTable *table, TupleTableSlot *row);
extern void la_insert_table_collect(LaInsertTable *table, LaCounters *counters,
									bool runs_user_code, double bytes);
extern bool la_insert_table_add(LaInsertTable *table, TupleTableSlot *row);
extern void la_insert_table_flush(LaInsertTable *table);
extern void la_insert_table_end(LaInsertTable *table);

#endif							/* LA_INSERT_TABLE_H */
