/*-------------------------------------------------------------------------
 *
 * la_join_expression.h
 *	  what the expressions of a plan node could show, if they were evaluated early
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_EXPRESSION_H
#define LA_JOIN_EXPRESSION_H

#include "nodes/execnodes.h"
#include "nodes/plannodes.h"

/* What is looked at, and was found. */
typedef struct LaJoinSeen
{
	bool		stable;			/* does one depend on what a volatile function
								 * may change? */
	bool		calls_users;	/* does one call a function of a user? */
	Bitmapset  *subplans;		/* plan_id of those that are called */
	Bitmapset  *parameters;		/* paramid of those that the plan itself sets */
} LaJoinSeen;

extern bool la_join_is_known(const Plan *plan);
extern List *la_join_expressions(const Plan *plan);
extern bool la_join_compares_by_users(const Plan *plan);
extern bool la_join_is_seen(const Plan *plan, List *expressions, LaJoinSeen *seen);
extern bool la_join_may_throw(List *expressions);

#endif							/* LA_JOIN_EXPRESSION_H */
