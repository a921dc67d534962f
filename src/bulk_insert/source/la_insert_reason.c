/*-------------------------------------------------------------------------
 *
 * la_insert_reason.c
 *	  which inserts are left to core
 *
 * Whether an insert calls a function that could see its rows can be told from the query, not
 * from its plan.  So it is found out before the query is planned: what makes a row is known
 * then, the defaults of columns too.  What the planner adds is looked at behind it
 * (la_insert_plan.c).  The table and its triggers (la_insert_relation.c) are looked
 * at before, so that no query is searched for nothing, and again when the query starts.  An insert
 * of a few rows of VALUES, which are never collected, is not even marked.
 *
 * What was found out has to reach the executor with the plan, which may be kept and copied.  A
 * ModifyTable has, for each table that it changes, a list for the table's foreign data wrapper,
 * which nobody looks at when the table is not foreign (relies on ExecInitModifyTable() in
 * nodeModifyTable.c and make_modifytable() in createplan.c); the plan of an insert of ours has a
 * mark there.  Without it an insert is core's.
 *
 * The mark names the functions and types of users that came up.  They are looked at again
 * whenever the plan is executed: core does not make a plan anew for all that can change about
 * them, such as a cast that is made later.  And when there is a batch to collect: triggers of the
 * statement have been called since, and others may have changed them while a source was sorted.
 *
 * Reads ModifyTableState and ResultRelInfo of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "nodes/value.h"
#include "parser/parsetree.h"
#include "utils/rel.h"

#include "bulk_insert/judge/la_insert_classes.h"
#include "bulk_insert/judge/la_insert_plan.h"
#include "bulk_insert/judge/la_insert_relation.h"
#include "bulk_insert/judge/la_insert_search.h"
#include "bulk_insert/la_insert_feature.h"
#include "bulk_insert/source/la_insert_reason.h"
#include "bulk_insert/source/la_insert_receiver.h"
#include "la_compat.h"
#include "needed_partitions/la_needed_projection.h"

/* Of a query that neither inserts rows nor fills a new table, or inserts a few rows. */
#define NO_JUDGEMENT LA_REASON_DISABLED

#define MARK "pg_lookahead insert " LA_BUILD_ID

/*
 * Elements of the mark.
 */
enum
{
	MARK_NAME,
	MARK_TABLE,
	MARK_REASON,
	MARK_FUNCTIONS,
	MARK_TYPES,
	MARK_Count
};

static bool
inserts_few_values(const Query *query)
{
	const List *from = query->jointree->fromlist;
	const RangeTblEntry *source;

	if (from == NIL)
		return !query->hasTargetSRFs;
	if (list_length(from) != 1 || !IsA(linitial(from), RangeTblRef) ||
		query->hasTargetSRFs)
		return false;
	source = rt_fetch(linitial_node(RangeTblRef, from)->rtindex, query->rtable);
	return source->rtekind == RTE_VALUES &&
		list_length(source->values_lists) <= la_insert_single_rows();
}

/*
 * Why a query that inserts is left to core, as far as its table and its clauses tell.  The
 * planner opens the table like this, too.
 */
static LaReason
unsuitable_insert(const Query *query)
{
	const RangeTblEntry *target = rt_fetch(query->resultRelation, query->rtable);
	Relation	table;
	LaReason	reason;

	if (target->relkind != RELKIND_RELATION &&
		target->relkind != RELKIND_PARTITIONED_TABLE)
		return NO_JUDGEMENT;
	table = table_open(target->relid, NoLock);
	reason = la_insert_unsuitable_table(table, table->trigdesc);
	table_close(table, NoLock);
	if (reason == LA_REASON_NONE && query->returningList != NIL)
		reason = LA_REASON_RETURNING;
	if (reason == LA_REASON_NONE && query->onConflict != NULL)
		reason = LA_REASON_ON_CONFLICT;
	return reason;
}

/*
 * For LaHooks: a query will be planned.
 */
LaJudgement
la_insert_judge_query(Query *query)
{
	LaJudgement judgement = {.reason = NO_JUDGEMENT};
	LaInsertSearch search = {0};
	bool		inserts = query->commandType == CMD_INSERT &&
		list_length(query->rtable) > 1;
	bool		fills = query->commandType == CMD_SELECT &&
		la_insert_fills_table();

	if (likely(!inserts && !fills) ||
		!la_feature_enabled(LA_FEATURE_BULK_INSERT) ||
		(inserts && inserts_few_values(query)))
		return judgement;
	judgement.reason = inserts ? unsuitable_insert(query) : LA_REASON_NONE;
	if (judgement.reason == LA_REASON_NONE && query->hasModifyingCTE)
		judgement.reason = LA_REASON_MODIFYING_WITH;
	if (judgement.reason == LA_REASON_NONE &&
		la_insert_search((Node *) query, &search))
		judgement.reason = LA_REASON_VOLATILE;
	judgement.functions = search.functions;
	judgement.types = search.types;
	return judgement;
}

/*
 * Marks a plan that inserts into one table, and returns no rows, with what was found out about
 * its query.
 */
static void
mark_insert(PlannedStmt *plan, const LaJudgement *judgement)
{
	ModifyTable *insert = (ModifyTable *) plan->planTree;
	RangeTblEntry *target;

	if (!IsA(insert, ModifyTable) ||
		list_length(insert->resultRelations) != 1 ||
		list_length(insert->fdwPrivLists) != 1 ||
		linitial(insert->fdwPrivLists) != NIL)
		return;
	target = rt_fetch(linitial_int(insert->resultRelations), plan->rtable);
	if (target->relkind == RELKIND_RELATION ||
		target->relkind == RELKIND_PARTITIONED_TABLE)
		linitial(insert->fdwPrivLists) =
			list_make5(makeString(MARK), makeInteger((int) target->relid),
					   makeInteger(judgement->reason),
					   judgement->functions, judgement->types);
}

/*
 * Why a query that fills a new table is left to core.
 */
static LaReason
unsuitable_filling(const LaJudgement *judgement)
{
	if (judgement->reason != LA_REASON_NONE)
		return judgement->reason;
	if (la_insert_search_again(judgement->functions, judgement->types) != LA_CALLS_CORE)
		return LA_REASON_USER_FUNCTION;
	return la_insert_classes_see_rows() ? LA_REASON_VOLATILE : LA_REASON_NONE;
}

/*
 * A judgement of the query becomes that of its plan.
 */
static LaJudgement
judge_plan(const PlannedStmt *plan, const LaJudgement *judgement)
{
	LaInsertSearch search = {
		.functions = judgement->functions,.types = judgement->types
	};
	LaReason	reason = judgement->reason;

	if (reason == LA_REASON_NONE && la_insert_search_plan(plan, &search))
		reason = LA_REASON_VOLATILE;
	return (LaJudgement)
	{
		reason, search.functions, search.types
	};
}

/*
 * For LaHooks: it has been planned.
 */
void
la_insert_mark_plan(PlannedStmt *plan, const LaJudgement *judgement)
{
	LaJudgement found;

	if (likely(judgement->reason == NO_JUDGEMENT))
		return;
	found = judge_plan(plan, judgement);
	if (plan->commandType == CMD_INSERT)
		mark_insert(plan, &found);
	else
		la_insert_note_plan(plan, unsuitable_filling(&found));
}

/*
 * The mark of a plan, of this build of the library; NIL when it has none.
 */
static const List *
mark_of(const ModifyTable *plan)
{
	const List *found;

	if (list_length(plan->fdwPrivLists) != 1)
		return NIL;
	found = linitial(plan->fdwPrivLists);
	return list_length(found) == MARK_Count && IsA(linitial(found), String) &&
		strcmp(strVal(linitial(found)), MARK) == 0 ? found : NIL;
}

/*
 * For the table of features: is this node an insert that was judged?
 */
bool
la_insert_concerns(const PlanState *planstate)
{
	const ModifyTable *plan = (const ModifyTable *) planstate->plan;

	return plan->operation == CMD_INSERT && mark_of(plan) != NIL;
}

/*
 * What the query of a marked plan has called for its rows now.
 */
LaInsertCalls
la_insert_marked_calls(const ModifyTable *plan)
{
	const List *found = mark_of(plan);

	return la_insert_search_again(list_nth(found, MARK_FUNCTIONS), list_nth(found, MARK_TYPES));
}

/*
 * Why the insert of a marked plan is left to core, as far as its mark tells.  One for another
 * table is not trusted.
 */
static LaReason
marked_reason(const List *found, Oid target)
{
	LaReason	reason = (LaReason) intVal(list_nth(found, MARK_REASON));

	if ((Oid) intVal(list_nth(found, MARK_TABLE)) != target)
		return LA_REASON_OTHER_EXTENSION;
	if (reason == LA_REASON_NONE &&
		la_insert_search_again(list_nth(found, MARK_FUNCTIONS),
							   list_nth(found, MARK_TYPES)) == LA_CALLS_SEEING)
		return LA_REASON_VOLATILE;
	return reason;
}

/*
 * For the table of features.  Operator classes are looked at when there is a batch to collect;
 * before only for EXPLAIN, which comes no further.
 */
LaVerdict
la_insert_classify(PlanState *planstate, const LaPlace *place)
{
	const ModifyTableState *insert = castNode(ModifyTableState, planstate);
	const ResultRelInfo *target = insert->resultRelInfo;
	Relation	table = target->ri_RelationDesc;
	LaVerdict	verdict = {0};

	verdict.reason = marked_reason(mark_of((ModifyTable *) planstate->plan),
								   RelationGetRelid(table));
	if (verdict.reason != LA_REASON_NONE)
		return verdict;
	verdict.reason = la_insert_unsuitable_table(table, target->ri_TrigDesc);
	if (target->ri_WithCheckOptions != NIL)
		verdict.reason = LA_REASON_CHECK_OPTION;
	else if (verdict.reason == LA_REASON_NONE && insert->mt_transition_capture != NULL)
		verdict.reason = LA_REASON_TRANSITION_TABLE;
	else if (verdict.reason == LA_REASON_NONE &&
			 !la_needed_is_row(outerPlanState(planstate)->plan->targetlist, table))
		verdict.reason = LA_REASON_SELF_CHECK;
	else if (verdict.reason == LA_REASON_NONE &&
			 (place->eflags & EXEC_FLAG_EXPLAIN_ONLY) && la_insert_classes_see_rows())
		verdict.reason = LA_REASON_VOLATILE;
	return verdict;
}
