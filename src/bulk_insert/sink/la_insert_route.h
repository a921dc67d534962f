/*-------------------------------------------------------------------------
 *
 * la_insert_route.h
 *	  which partition a row goes to
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_ROUTE_H
#define LA_INSERT_ROUTE_H

#include "bulk_insert/sink/la_insert_target.h"
#include "la_reason.h"
#include "needed_partitions/la_needed_watch.h"

/*
 * Bounds of partitions whose key is one number: from which value on rows are of a partition, or
 * which value they have.
 */
typedef struct LaInsertBounds
{
	int			key_size;		/* bytes of a number */
	AttrNumber	column;			/* that is the key; 0: an expression */
	ExprState  *expression;
	bool		is_list;
	int			default_partition;	/* -1: none */
	int			last;			/* bound that was found last, or -1 */
	int			count;
	int64	   *numbers;		/* ascending */
	int		   *partitions;		/* of each, -1: none */
} LaInsertBounds;

/*
 * The way to the partitions of a table.
 */
typedef struct LaInsertRoute
{
	ModifyTableState *node;
	LaInsertCommon *common;
	LaReason	reason;			/* why a row is left to core */
	bool		has_indexes;	/* has a partition that was met any? */
	bool		wants_bounds;	/* are the bounds to be read later? */
	uint32		rows_without;	/* that were routed meanwhile */
	ResultRelInfo *refused;		/* partition of the last row that was */
	int			count;
	int			size;
	int			waiting;		/* partitions that have rows that wait */
	LaInsertTarget **targets;	/* partitions met so far, those that have
								 * first */
	bool		collects;		/* do their rows wait? */
	struct LaInsertPool *pool;	/* in which they do */
	LaInsertBounds *bounds;		/* NULL: core finds partitions */
	LaInsertTarget **by_bound;	/* by number of the partition, NULL: not met */
	LaNeeded   *needed;			/* where an INSERT has partitions created, or
								 * NULL */
} LaInsertRoute;

extern LaInsertRoute *la_insert_route_begin(ModifyTableState *node,
											LaInsertCommon *common);
extern void la_insert_route_collect(LaInsertRoute *route);
extern LaInsertTarget *la_insert_route_find(LaInsertRoute *route,
											TupleTableSlot **row);

#endif							/* LA_INSERT_ROUTE_H */
