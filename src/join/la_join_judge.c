/*-------------------------------------------------------------------------
 *
 * la_join_judge.c
 *	  may outer rows of a join be drawn ahead of their turn?
 *
 * What the outer side does for a row must not be seen to happen early.  So
 * only kinds of nodes are allowed whose expressions are all known here
 * (la_join_expression.c), without volatile functions, locks or changes.  Where
 * one may throw, no other part of the statement may have effects that last,
 * nor who receives its rows keep them: what it has done for the rows before
 * would not be done any more.
 *
 * And it must happen at all: where nobody says that the join will be read to
 * its end (la_join_end.c), its last rows may be left unread.  Then rows are
 * drawn only where the next one costs next to nothing, and where no expression
 * can throw, which PostgreSQL says of leakproof functions; no more of them
 * than a Limit right above wants.  What a sort or an aggregate reads for its
 * first row does not count.  Under SERIALIZABLE none are, because rows that
 * are read are locked.  Of a parallel worker nobody but its leader says so:
 * there a next row may cost something, as it does in core, where a worker runs
 * ahead of its leader.
 *
 * A stable function may read what a volatile one changes between two rows, such as a setting.  So
 * with those on the outer side, nothing may be volatile in the whole statement, nor may its
 * rows be fetched a few at a time.
 *
 * A loop in the outer side that sets the same parameters would go on with values of a row that we
 * have handed out.  The planner gives each loop its own (relies on replace_nestloop_param_var() in
 * paramassign.c), but that is looked at.
 *
 * Reads EState and NestLoopState of execnodes.h, and NestLoop of plannodes.h
 * and others of its nodes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/pg_class_d.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "attach/la_plan_children.h"
#include "join/la_join_end.h"
#include "join/la_join_expression.h"
#include "join/la_join_judge.h"
#include "join/la_join_statement.h"

typedef struct Judgement
{
	const NestLoop *join;
	LaQuery    *query;
	LaJoinSeen	seen;
	bool		on_line;		/* is this node, as all above, read for the
								 * first row, and once? */
	bool		at_once;		/* is all below read for the first row? */
	bool		throws;			/* may an expression, for another row? */
	LaReason	reason;
} Judgement;

/*
 * Has one of these parameters been left to be computed, or may it be again after a rescan?
 */
static bool
is_computed(LaQuery *query, const Bitmapset *parameters)
{
	int			parameter = -1;

	while ((parameter = bms_next_member(parameters, parameter)) >= 0)
	{
		if (query->estate->es_param_exec_vals[parameter].execPlan != NULL)
			return true;
	}
	return !bms_is_empty(parameters) &&
		query->estate->es_plannedstmt->subplans != NIL &&
		bms_overlap(parameters, la_join_statement(query)->set_again);
}

/*
 * Are the entries of a btree that match next to each other?  They are where each column but
 * the last one with a condition is compared by =.
 */
static bool
is_one_range(List *indexqual)
{
	Bitmapset  *columns = NULL;
	Bitmapset  *equal = NULL;
	ListCell   *lc;
	int			column = -1;
	int			next = 1;

	foreach(lc, indexqual)
	{
		const OpExpr *clause = lfirst(lc);
		const Node *left;

		if (!IsA(clause, OpExpr))
			return false;
		left = linitial(clause->args);
		if (IsA(left, RelabelType))
			left = (const Node *) ((const RelabelType *) left)->arg;
		if (!IsA(left, Var))
			return false;
		column = ((const Var *) left)->varattno;
		columns = bms_add_member(columns, column);
		if (op_mergejoinable(clause->opno, exprType(left)))
			equal = bms_add_member(equal, column);
	}
	for (column = -1; (column = bms_next_member(columns, column)) >= 0; next++)
	{
		if (column != next)
			return false;
		if (!bms_is_member(column, equal) && column != bms_prev_member(columns, -1))
			return false;
	}
	return true;
}

/*
 * Does a node read all rows of its child for its first one?
 */
static bool
reads_at_once(const Plan *plan)
{
	const Agg  *aggregate = (const Agg *) plan;

	return IsA(plan, Sort) ||
		(IsA(plan, Agg) && aggregate->chain == NIL &&
		 (aggregate->aggstrategy == AGG_PLAIN || aggregate->aggstrategy == AGG_HASHED));
}

/*
 * Does another row cost next to nothing?  That of a scan that leaves none out; and where all
 * were read for the first one.
 */
static bool
is_next_to_nothing(const Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_ValuesScan:
		case T_FunctionScan:
			return plan->qual == NIL;
		case T_IndexScan:
			return plan->qual == NIL &&
				is_one_range(((const IndexScan *) plan)->indexqual);
		case T_IndexOnlyScan:
			return plan->qual == NIL &&
				is_one_range(((const IndexOnlyScan *) plan)->indexqual);
		case T_Sort:
			return true;
		case T_Agg:
			return plan->qual == NIL && reads_at_once(plan);
		case T_SubqueryScan:
			return plan->qual == NIL &&
				is_next_to_nothing(((const SubqueryScan *) plan)->subplan);
		case T_Material:
		case T_Limit:
			return is_next_to_nothing(plan->lefttree);
		default:
			return false;
	}
}

/*
 * Does the target list of a join, or of what stands between two, name columns
 * and nothing else?  Each join above asks, and each list has all columns of
 * those below: so the answer is remembered.
 */
static bool
passes_columns(const Plan *plan, LaQuery *query)
{
	MemoryContext old;

	if (bms_is_member(plan->plan_node_id, query->passing))
		return true;
	foreach_node(TargetEntry, entry, plan->targetlist)
	{
		const Var  *column = (const Var *) entry->expr;

		if (!IsA(column, Var) || column->varattno <= 0)
			return false;
	}
	old = MemoryContextSwitchTo(query->estate->es_query_cxt);
	query->passing = bms_add_member(query->passing, plan->plan_node_id);
	MemoryContextSwitchTo(old);
	return true;
}

/*
 * Is this a scan of rows that are changed in place, which any snapshot sees at
 * once?  That of a sequence is when somebody takes a value of it, others are
 * by VACUUM, ANALYZE and CREATE INDEX.
 */
static bool
reads_changing_rows(const Plan *plan, EState *estate)
{
	const RangeTblEntry *entry;

	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapHeapScan:
		case T_TidScan:
		case T_TidRangeScan:
			entry = exec_rt_fetch(((const Scan *) plan)->scanrelid, estate);
			return entry->relkind == RELKIND_SEQUENCE || IsInplaceUpdateOid(entry->relid);
		default:
			return false;
	}
}

static bool
shares_parameter(const NestLoop *join, const NestLoop *other)
{
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, join->nestParams)
	{
		foreach(lc2, other->nestParams)
		{
			if (((NestLoopParam *) lfirst(lc))->paramno ==
				((NestLoopParam *) lfirst(lc2))->paramno)
				return true;
		}
	}
	return false;
}

/*
 * la_plan_children callback.
 */
static bool
judge_node(Plan *plan, void *context)
{
	Judgement  *judgement = (Judgement *) context;
	List	   *expressions = la_join_expressions(plan);
	bool		on_line = judgement->on_line;
	bool		at_once = judgement->at_once;
	bool		result;

	if (passes_columns(plan, judgement->query))
		expressions = list_delete_first(expressions);
	if (!la_join_is_known(plan) ||
		(IsA(plan, NestLoop) &&
		 shares_parameter(judgement->join, (const NestLoop *) plan)))
		judgement->reason = LA_REASON_OUTER_SIDE;
	else if (la_join_is_seen(plan, expressions, &judgement->seen) ||
			 la_join_compares_by_users(plan))
		judgement->reason = LA_REASON_VOLATILE;
	if (on_line && IsA(plan, FunctionScan))
		expressions = list_delete_last(expressions);	/* whose functions give
														 * all rows at once */
	judgement->throws |= judgement->reason == LA_REASON_NONE && !at_once &&
		la_join_may_throw(expressions);
	judgement->seen.stable |= reads_changing_rows(plan, judgement->query->estate);

	/*
	 * Nodes of two children read one again for each row of the other, or come
	 * to it late.
	 */
	judgement->on_line = on_line &&
		(IsA(plan, SubqueryScan) ||
		 (plan->lefttree != NULL && plan->righttree == NULL));
	judgement->at_once |= on_line && reads_at_once(plan);
	result = judgement->reason != LA_REASON_NONE ||
		la_plan_children(plan, judge_node, judgement);
	judgement->on_line = on_line;
	judgement->at_once = at_once;
	return result;
}

/*
 * Judges all nodes of the outer side, and those of the plans that its expressions call.
 */
static void
judge_side(Judgement *judgement, Plan *outer)
{
	const List *subplans = judgement->query->estate->es_plannedstmt->subplans;
	Bitmapset  *judged = NULL;

	judgement->on_line = true;
	if (judge_node(outer, judgement))
		return;
	judgement->on_line = false;
	while (!bms_is_subset(judgement->seen.subplans, judged))
	{
		Bitmapset  *calls = bms_difference(judgement->seen.subplans, judged);
		int			number = bms_next_member(calls, -1);
		Plan	   *plan = list_nth(subplans, number - 1);

		judged = bms_add_member(judged, number);
		if (judge_node(plan, judgement))
			return;
	}
}

static LaReason
find_reason(NestLoopState *join, LaNode *node, LaJoinEnd end)
{
	Snapshot	snapshot = join->js.ps.state->es_snapshot;
	Plan	   *outer = outerPlan(join->js.ps.plan);
	LaQuery    *query = node->query;
	Judgement	judgement = {0};

	if (snapshot == NULL || snapshot->snapshot_type != SNAPSHOT_MVCC)
		return LA_REASON_SNAPSHOT;
	if (end == LA_JOIN_NOT_KNOWN_YET ||
		(end == LA_JOIN_MAY_STOP && !is_next_to_nothing(outer)) ||
		(end != LA_JOIN_READ_TO_END && IsolationIsSerializable()))
		return LA_REASON_EARLY_STOP;

	judgement.join = (const NestLoop *) join->js.ps.plan;
	judgement.query = query;
	judge_side(&judgement, outer);
	if (judgement.reason != LA_REASON_NONE)
		return judgement.reason;
	if (judgement.throws && end != LA_JOIN_READ_TO_END)
		return LA_REASON_EARLY_STOP;
	if (is_computed(query, judgement.seen.parameters) ||
		(judgement.seen.stable &&
		 (query->bounded || la_join_statement(query)->is_volatile)) ||
		(judgement.throws &&
		 (query->keeps_rows || la_join_statement(query)->has_effects)))
		return LA_REASON_VOLATILE;
	return LA_REASON_NONE;
}

/*
 * May rows be drawn ahead, and may the join be left before its end?  If not,
 * the reason is noted in the node, or none when that is not known yet.
 */
bool
la_join_judge(NestLoopState *join, LaNode *node, bool *may_stop)
{
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext,
												  "pg_lookahead join judgement",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(scratch);
	LaJoinEnd	end = la_join_end(node);
	LaReason	reason = find_reason(join, node, end);

	MemoryContextSwitchTo(old);
	MemoryContextDelete(scratch);
	*may_stop = end == LA_JOIN_MAY_STOP;
	if (end != LA_JOIN_NOT_KNOWN_YET)
		node->reason = reason;
	return reason == LA_REASON_NONE;
}
