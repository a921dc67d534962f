/*-------------------------------------------------------------------------
 *
 * la_join_statement.c
 *	  what the whole statement says about rows drawn ahead
 *
 * It is found out once, when the first join of the statement wakes, from all of its plans: of a parallel
 * worker those of its part.
 *
 * Reads EState of execnodes.h, and plannodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/execnodes.h"
#include "utils/rel.h"

#include "attach/la_plan_children.h"
#include "join/la_join_expression.h"
#include "join/la_join_statement.h"

static bool look_at(Plan *plan, void *context);
static void note_init_plans(const Plan *plan, LaJoinStatement *statement);
static bool has_effects(const Plan *plan, List *expressions,
						const EState *estate);
static bool inserts_only(const ModifyTable *plan, const EState *estate);

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
	look_at(planned->planTree, statement);
	foreach(lc, planned->subplans)
	{
		if (lfirst(lc) != NULL)
			look_at(lfirst(lc), statement);
	}
	query->join_statement = statement;
	return statement;
}

/*
 * la_plan_children callback.
 */
static bool
look_at(Plan *plan, void *context)
{
	LaJoinStatement *statement = (LaJoinStatement *) context;
	List	   *expressions = la_join_expressions(plan);
	LaJoinSeen	seen = {0};

	note_init_plans(plan, statement);
	statement->is_volatile |=
		(!la_join_is_known(plan) && !IsA(plan, LockRows) && !IsA(plan, CteScan)) ||
		la_join_is_seen(expressions, &seen);
	statement->has_effects |= has_effects(plan, expressions, statement->estate);
	return la_plan_children(plan, look_at, context);
}

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
 * Does the node do anything for a row that an error in a later one does not take back?
 */
static bool
has_effects(const Plan *plan, List *expressions, const EState *estate)
{
	switch (nodeTag(plan))
	{
		case T_ModifyTable:
			return !inserts_only((const ModifyTable *) plan, estate);
		case T_TableFuncScan:
		case T_SampleScan:
		case T_ForeignScan:
		case T_CustomScan:
			return true;
		default:
			return la_join_has_effects(expressions);
	}
}

/*
 * Does it put rows into a plain table, and nobody else comes to see them?
 */
static bool
inserts_only(const ModifyTable *plan, const EState *estate)
{
	Relation	relation;

	if (plan->operation != CMD_INSERT || plan->onConflictAction != ONCONFLICT_NONE ||
		plan->withCheckOptionLists != NIL || plan->returningLists != NIL)
		return false;
	relation = estate->es_relations[linitial_int(plan->resultRelations) - 1];
	return relation != NULL && relation->rd_rel->relkind == RELKIND_RELATION &&
		relation->trigdesc == NULL &&
		(relation->rd_att->constr == NULL ||
		 (relation->rd_att->constr->num_check == 0 &&
		  !relation->rd_att->constr->has_generated_stored));
}
