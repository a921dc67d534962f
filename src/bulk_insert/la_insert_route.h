/*-------------------------------------------------------------------------
 *
 * la_insert_route.h
 *	  which partition a row goes to
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_ROUTE_H
#define LA_INSERT_ROUTE_H

#include "bulk_insert/la_insert_bounds.h"
#include "bulk_insert/la_insert_target.h"
#include "la_reason.h"

/*
 * The way to the partitions of a table.
 */
typedef struct LaInsertRoute
{
	ModifyTableState *node;
	LaInsertCommon *common;
	LaReason	reason;			/* why a row is left to core */
	bool		wants_bounds;	/* are the bounds to be read later? */
	uint32		rows_without;	/* that were routed meanwhile */
	ResultRelInfo *refused;		/* partition of the last row that was */
	int			count;
	int			size;
	LaInsertTarget **targets;	/* partitions met so far */
	LaInsertPool *pool;			/* of their rows, or NULL */
	LaInsertBounds *bounds;		/* NULL: core finds partitions */
	LaInsertTarget **by_bound;	/* by number of the partition, NULL: not met */
} LaInsertRoute;

extern LaInsertRoute *la_insert_route_begin(ModifyTableState *node,
											LaInsertCommon *common);
extern void la_insert_route_collect(LaInsertRoute *route);
extern LaInsertTarget *la_insert_route_find(LaInsertRoute *route,
											TupleTableSlot **row);

#endif							/* LA_INSERT_ROUTE_H */
