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
#include "executor/execdesc.h"
#include "nodes/execnodes.h"

/* Prints what EXPLAIN shows under a plan node, and after all of them. */
typedef void (*LaExplainNode) (PlanState *planstate, ExplainState *es);
typedef void (*LaExplainPlan) (const PlannedStmt *plan, const IntoClause *into,
							   ExplainState *es);

/* A query that changes rows has started. */
typedef void (*LaModifyStart) (QueryDesc *query, int eflags);

extern void la_hooks_install(LaExplainNode explain_node,
							 LaExplainPlan explain_plan,
							 LaModifyStart modify_start);

#endif							/* LA_HOOKS_H */
