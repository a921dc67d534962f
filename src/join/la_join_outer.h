/*-------------------------------------------------------------------------
 *
 * la_join_outer.h
 *	  what outer rows give to the plans that are executed for each of them
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_OUTER_H
#define LA_JOIN_OUTER_H

#include "access/attnum.h"
#include "nodes/execnodes.h"

/* Parameters that are set for each outer row. */
typedef struct LaJoinOuter
{
	PlanState  *node;			/* that sets them */
	int			nparameters;
	int		   *parameters;		/* their numbers */
	AttrNumber *columns;		/* of the outer row */
} LaJoinOuter;

extern LaJoinOuter *la_join_outer_of_loop(NestLoopState *loop);
extern LaJoinOuter *la_join_outer_of_scan(ScanState *scan);
extern bool la_join_calls_per_row(const SubPlanState *subplan);
extern AttrNumber la_join_outer_column(const LaJoinOuter *outer, int parameter);

#endif							/* LA_JOIN_OUTER_H */
