/*-------------------------------------------------------------------------
 *
 * la_explain.h
 *	  EXPLAIN (LOOKAHEAD)
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_EXPLAIN_H
#define LA_EXPLAIN_H

#include "commands/explain_state.h"
#include "nodes/execnodes.h"

extern void la_explain_init(void);
extern void la_explain_node(PlanState *planstate, ExplainState *es);
extern void la_explain_plan(const PlannedStmt *plan, const IntoClause *into,
							ExplainState *es);

#endif							/* LA_EXPLAIN_H */
