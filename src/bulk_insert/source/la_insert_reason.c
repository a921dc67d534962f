/*-------------------------------------------------------------------------
 *
 * la_insert_reason.c
 *	  which inserts are left to core
 *
 * What the query tells is found out before it is planned, and comes with the plan
 * (la_insert_mark.c); what the table tells is found out when the query starts, or before
 * a search of the query that would be for nothing.  An insert of a few rows of VALUES, which are
 * never collected, is not even marked.
 *
 * Reads ModifyTableState and ResultRelInfo of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "bulk_insert/judge/la_insert_judge.h"
#include "bulk_insert/judge/la_insert_mark.h"
#include "bulk_insert/judge/la_insert_relation.h"
#include "bulk_insert/la_insert_feature.h"
#include "bulk_insert/source/la_insert_reason.h"
#include "bulk_insert/source/la_insert_receiver.h"

static bool inserts_few_values(const Query *query);
static LaReason unsuitable_target(const Query *query);
static void depend_on_all(PlannedStmt *plan, const LaJudgement *judgement);
static void depend_on(PlannedStmt *plan, int cache, Oid object);
static bool fits(const List *rows, Relation table);
static bool fits_column(const Expr *value, Form_pg_attribute column);

/* Of a query that neither inserts rows nor fills a new table, or inserts a few rows. */
#define NO_JUDGEMENT LA_REASON_DISABLED

/*
 * For the table of features: a query will be planned.
 */
LaJudgement
la_insert_judge_query(Query *query)
{
	LaJudgement judgement = {.reason = NO_JUDGEMENT};
	bool		inserts = query->commandType == CMD_INSERT &&
		list_length(query->rtable) > 1;
	bool		fills = query->commandType == CMD_SELECT &&
		la_insert_fills_table();
	char		relkind;

	if (likely(!inserts && !fills) ||
		!la_feature_enabled(LA_FEATURE_BULK_INSERT) ||
		(inserts && inserts_few_values(query)))
		return judgement;
	relkind = inserts ? rt_fetch(query->resultRelation, query->rtable)->relkind :
		RELKIND_RELATION;
	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE)
		return judgement;
	judgement.reason = inserts ? unsuitable_target(query) : LA_REASON_NONE;
	return judgement.reason == LA_REASON_NONE ? la_insert_judge(query) : judgement;
}

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
 * Why a query that inserts is left to core, as far as its table tells.  The planner opens
 * the table like this, too.
 */
static LaReason
unsuitable_target(const Query *query)
{
	Oid			target = rt_fetch(query->resultRelation, query->rtable)->relid;
	Relation	table = table_open(target, NoLock);
	LaReason	reason = la_insert_unsuitable_storage(table);

	if (reason == LA_REASON_NONE)
		reason = la_insert_unsuitable_triggers(table->trigdesc,
											   table->rd_rel->relkind == RELKIND_PARTITIONED_TABLE);
	table_close(table, NoLock);
	return reason;
}

/*
 * For the table of features: it has been planned.
 */
void
la_insert_mark_plan(PlannedStmt *plan, const LaJudgement *judgement)
{
	if (likely(judgement->reason == NO_JUDGEMENT))
		return;
	if (plan->commandType == CMD_INSERT)
		la_insert_mark(plan, judgement);
	else if (judgement->reason == LA_REASON_NONE && judgement->runs_user_code)
		la_insert_note_plan(plan, LA_REASON_USER_FUNCTION);
	else
		la_insert_note_plan(plan, judgement->reason);
	depend_on_all(plan, judgement);
}

/*
 * Has a plan made anew when something changes that was looked at.  Core makes a kept plan anew when
 * a function changes that the plan calls.  Our judgement also rests on what it does not name: types,
 * and the functions that belong to them.  Relies on PlanCacheObjectCallback() in plancache.c.
 */
static void
depend_on_all(PlannedStmt *plan, const LaJudgement *judgement)
{
	ListCell   *lc;

	foreach(lc, judgement->functions)
		depend_on(plan, PROCOID, lfirst_oid(lc));
	foreach(lc, judgement->types)
		depend_on(plan, TYPEOID, lfirst_oid(lc));
	plan->relationOids = list_concat(plan->relationOids, judgement->tables);
}

static void
depend_on(PlannedStmt *plan, int cache, Oid object)
{
	PlanInvalItem *item = makeNode(PlanInvalItem);

	item->cacheId = cache;
	item->hashValue = GetSysCacheHashValue1(cache, ObjectIdGetDatum(object));
	plan->invalItems = lappend(plan->invalItems, item);
}

/*
 * For the table of features: is this node an insert that was judged?
 */
bool
la_insert_concerns(const PlanState *planstate)
{
	const ModifyTable *plan = (const ModifyTable *) planstate->plan;

	return plan->operation == CMD_INSERT && la_insert_is_marked(plan);
}

/*
 * For the table of features.
 */
LaVerdict
la_insert_classify(PlanState *planstate, const LaPlace *place)
{
	const ModifyTableState *insert = castNode(ModifyTableState, planstate);
	const ResultRelInfo *target = insert->resultRelInfo;
	Relation	table = target->ri_RelationDesc;
	LaVerdict	verdict = {0};

	verdict.reason = la_insert_judgement((ModifyTable *) planstate->plan,
										 RelationGetRelid(table));
	if (verdict.reason == LA_REASON_NONE)
		verdict.reason = la_insert_unsuitable_table(target);
	if (verdict.reason == LA_REASON_NONE &&
		insert->mt_transition_capture != NULL)
		verdict.reason = LA_REASON_TRANSITION_TABLE;
	if (verdict.reason == LA_REASON_NONE)
		verdict.reason =
			la_insert_unsuitable_triggers(target->ri_TrigDesc,
										  table->rd_rel->relkind == RELKIND_PARTITIONED_TABLE);
	if (verdict.reason == LA_REASON_NONE &&
		!fits(outerPlanState(planstate)->plan->targetlist, table))
		verdict.reason = LA_REASON_SELF_CHECK;
	return verdict;
}

/*
 * Are the rows of the plan below of the table's row type?  Core checks it before
 * the first row, and has error messages for it.  Mirrors ExecCheckPlanOutput() in
 * nodeModifyTable.c.
 */
static bool
fits(const List *rows, Relation table)
{
	TupleDesc	descriptor = RelationGetDescr(table);
	ListCell   *lc;
	int			column = 0;

	foreach(lc, rows)
	{
		const TargetEntry *entry = lfirst(lc);

		if (entry->resjunk || column == descriptor->natts ||
			!fits_column(entry->expr, TupleDescAttr(descriptor, column)))
			return false;
		column++;
	}
	return column == descriptor->natts;
}

/*
 * A dropped column, and a generated one, gets a null of whatever type.
 */
static bool
fits_column(const Expr *value, Form_pg_attribute column)
{
	if (column->attisdropped || column->attgenerated != '\0')
		return IsA(value, Const) && ((const Const *) value)->constisnull;
	return exprType((const Node *) value) == column->atttypid;
}
