/*-------------------------------------------------------------------------
 *
 * la_join_statement.c
 *	  what the whole statement says about rows drawn ahead
 *
 * It is found out once, when a join that wakes needs to know it, from all
 * plans of the statement: of a parallel worker those of its part.
 *
 * Reads EState of execnodes.h, and plannodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/execnodes.h"

#include "attach/la_plan_children.h"
#include "join/la_join_expression.h"
#include "join/la_join_statement.h"

/*
 * An InitPlan that depends on parameters is executed again when they change (relies on
 * ExecReScanSetParamPlan() in nodeSubplan.c).
 */
static void
note_init_plans(const Plan *plan, LaJoinStatement *statement)
{
	MemoryContext old = MemoryContextSwitchTo(statement->estate->es_query_cxt);
	ListCell   *lc;

	foreach(lc, plan->initPlan)
	{
		const SubPlan *init = lfirst_node(SubPlan, lc);
		const Plan *its_plan = list_nth(statement->estate->es_plannedstmt->subplans,
										init->plan_id - 1);

		if (its_plan == NULL || !bms_is_empty(its_plan->extParam))
			foreach_int(paramno, init->setParam)
				statement->set_again = bms_add_member(statement->set_again, paramno);
	}
	MemoryContextSwitchTo(old);
}

/*
 * May the node do anything for a row that an error in a later one does not
 * take back, beside what is seen to happen early?
 */
static bool
has_effects(const Plan *plan)
{
	return IsA(plan, ModifyTable) || IsA(plan, TableFuncScan) ||
		IsA(plan, SampleScan) || IsA(plan, ForeignScan) || IsA(plan, CustomScan) ||
		la_join_compares_by_users(plan);
}

/*
 * la_plan_children callback.
 */
static bool
look_at_plan(Plan *plan, void *context)
{
	LaJoinStatement *statement = (LaJoinStatement *) context;
	LaJoinSeen	seen = {0};
	bool		is_seen = la_join_is_seen(plan, la_join_expressions(plan), &seen);

	note_init_plans(plan, statement);
	statement->is_volatile |= is_seen ||
		(!la_join_is_known(plan) && !IsA(plan, CteScan));
	statement->has_effects |= is_seen || seen.calls_users || has_effects(plan);
	return la_plan_children(plan, look_at_plan, context);
}

/*
 * What is known about the statement of a query.
 */
const LaJoinStatement *
la_join_statement(LaQuery *query)
{
	const PlannedStmt *planned = query->estate->es_plannedstmt;
	LaJoinStatement *statement;
	ListCell   *lc;

	if (query->join_statement != NULL)
		return query->join_statement;
	statement = MemoryContextAllocZero(query->estate->es_query_cxt,
									   sizeof(LaJoinStatement));
	statement->estate = query->estate;
	look_at_plan(planned->planTree, statement);
	foreach(lc, planned->subplans)
	{
		if (lfirst(lc) != NULL)
			look_at_plan(lfirst(lc), statement);
	}
	query->join_statement = statement;
	return statement;
}
