/*-------------------------------------------------------------------------
 *
 * la_hooks.h
 *	  all hooks of core that we use
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_HOOKS_H
#define LA_HOOKS_H

#include "commands/explain_state.h"
#include "nodes/execnodes.h"

/* Prints what EXPLAIN shows under a plan node, and after all of them. */
typedef void (*LaExplainNode) (PlanState *planstate, ExplainState *es);
typedef void (*LaExplainPlan) (const PlannedStmt *plan, const IntoClause *into,
							   ExplainState *es);

extern void la_hooks_install(LaExplainNode explain_node,
							 LaExplainPlan explain_plan);

#endif							/* LA_HOOKS_H */
