/*-------------------------------------------------------------------------
 *
 * la_needed_statement.h
 *	  whether a statement knows a partition for a row, and what it does when not
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_NEEDED_STATEMENT_H
#define LA_NEEDED_STATEMENT_H

#include "nodes/execnodes.h"
#include "partitioning/partdefs.h"

/* A projection with our function. */
typedef struct LaWatched
{
	ExprState  *projection;
	ExprStateEvalFunc evaluate; /* core's function */
	ExprState  *key;			/* of the row that it forms; NULL: of the
								 * table */
} LaWatched;

/* What belongs to a statement, or rather to one of its ModifyTable nodes. */
typedef struct LaNeeded
{
	struct LaNeeded *next;
	ModifyTableState *node;
	Relation	table;
	PartitionDesc partitions;	/* as the statement knows them */
	AttrNumber	column;			/* that is the key, or 0 */
	int			width;			/* bytes of the integers that the key is
								 * compared as, or 0 */
	ExprContext *context;		/* of keys that are evaluated; NULL at first */
	ExprState  *key;			/* of a row of the table, where it is no
								 * column */
	ProjectionInfo copy;		/* of an INSERT */
	int			count;
	LaWatched  *watched;		/* of others, in the order of addresses */
	int			created;		/* partitions, by this statement */

	/* The key of the row that was looked at last. */
	Datum		value;
	bool		is_null;

	/* Of before. */
	List	   *routings;
	List	   *directories;
	MemoryContextCallback forget;
} LaNeeded;

extern LaNeeded *la_needed_begin(ModifyTableState *node);
extern LaNeeded *la_needed_find(const ModifyTableState *node);
extern Expr *la_needed_key(Relation table);
extern bool la_needed_lacks(LaNeeded *needed, ExprState *key,
							TupleTableSlot *row);
extern void la_needed_look_again(LaNeeded *needed);
extern void la_needed_provide(LaNeeded *needed);

#endif							/* LA_NEEDED_STATEMENT_H */
