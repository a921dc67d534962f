/*-------------------------------------------------------------------------
 *
 * la_join_judge.c
 *	  may outer rows of a join be drawn ahead of their turn?
 *
 * What the outer side does for a row must not be seen to happen early.  So only kinds of nodes are
 * allowed whose expressions are all known here (la_join_expression.c), without volatile functions,
 * locks or changes.  Where one may throw, no other part of the statement may be volatile: what that has
 * done for the rows before would not be done any more.
 *
 * And it must happen at all: where nobody says that the join will be read to its end (la_join_end.c), its
 * last rows may be left unread.  Then rows are drawn only where the next one costs next to nothing,
 * and where no expression can throw, which PostgreSQL says of leakproof functions; no more of them than
 * a Limit right above wants.  Under SERIALIZABLE none are, because rows that are read are locked.
 *
 * A stable function may read what a volatile one changes between two rows, such as a setting.  So
 * with those on the outer side, nothing may be volatile in the whole statement, nor may its
 * rows be fetched a few at a time.
 *
 * A loop in the outer side that sets the same parameters would go on with values of a row that we
 * have handed out.  The planner gives each loop its own (relies on replace_nestloop_param_var() in
 * paramassign.c), but that is looked at.
 *
 * Reads NestLoopState and SubqueryScanState of execnodes.h, and NestLoop of plannodes.h and others of
 * its nodes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_class_d.h"
#include "nodes/nodeFuncs.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "join/la_join_end.h"
#include "join/la_join_expression.h"
#include "join/la_join_judge.h"

typedef struct Judgement
{
	const NestLoop *join;
	LaJoinSeen	seen;
	bool		throws;			/* may an expression? */
	LaReason	reason;
} Judgement;

static LaReason judge_end(NestLoopState *join, const LaNode *node);
static bool is_next_to_nothing(PlanState *planstate);
static bool judge_node(PlanState *planstate, Judgement *judgement);
static bool reads_sequence(PlanState *planstate);
static bool is_allowed(const Plan *plan);
static bool is_any_node(const LaQuery *query,
						bool (*is) (PlanState *planstate, LaJoinSeen *seen));
static bool is_node_volatile(PlanState *planstate, LaJoinSeen *seen);
static bool calls_volatile(PlanState *planstate, LaJoinSeen *seen);
static bool shares_parameter(const NestLoop *join, const NestLoop *other);

/*
 * Why not, or LA_REASON_NONE.
 */
LaReason
la_join_judge(NestLoopState *join, const LaNode *node)
{
	const LaQuery *query = node->query;
	Snapshot	snapshot = join->js.ps.state->es_snapshot;
	LaReason	end = judge_end(join, node);
	Judgement	judgement = {
		.join = (const NestLoop *) join->js.ps.plan,
		.seen = {.query = query},
		.reason = LA_REASON_NONE
	};

	if (snapshot == NULL || snapshot->snapshot_type != SNAPSHOT_MVCC)
		return LA_REASON_SNAPSHOT;
	if (end != LA_REASON_NONE)
		return end;
	if (judge_node(outerPlanState(join), &judgement))
		return judgement.reason;
	if (judgement.throws && !la_join_is_read_to_end(node))
		return LA_REASON_EARLY_STOP;
	if (judgement.seen.stable &&
		(query->partial_fetch || is_any_node(query, is_node_volatile)))
		return LA_REASON_VOLATILE;
	if (judgement.throws && is_any_node(query, calls_volatile))
		return LA_REASON_VOLATILE;
	return LA_REASON_NONE;
}

/*
 * Why nothing is drawn ahead if the join may be left before its end.
 */
static LaReason
judge_end(NestLoopState *join, const LaNode *node)
{
	if (la_join_is_read_to_end(node))
		return LA_REASON_NONE;
	if (IsolationIsSerializable() ||
		!is_next_to_nothing(outerPlanState(join)))
		return LA_REASON_EARLY_STOP;
	return LA_REASON_NONE;
}

/*
 * Does another row cost next to nothing?  That of a scan that leaves none out; and where all
 * were read for the first one.
 */
static bool
is_next_to_nothing(PlanState *planstate)
{
	const Plan *plan = planstate->plan;

	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_ValuesScan:
			return plan->qual == NIL;
		case T_Sort:
			return true;
		case T_SubqueryScan:
			return plan->qual == NIL &&
				is_next_to_nothing(((SubqueryScanState *) planstate)->subplan);
		case T_Material:
			return is_next_to_nothing(outerPlanState(planstate));
		default:
			return false;
	}
}

/*
 * planstate_tree_walker callback, which sees the plans of expressions, too.
 */
static bool
judge_node(PlanState *planstate, Judgement *judgement)
{
	const Plan *plan = planstate->plan;
	List	   *expressions;

	if (!is_allowed(plan) ||
		(IsA(plan, NestLoop) &&
		 shares_parameter(judgement->join, (const NestLoop *) plan)))
		judgement->reason = LA_REASON_OUTER_SIDE;
	else
	{
		expressions = la_join_expressions(plan);
		if (la_join_is_seen(expressions, &judgement->seen) ||
			la_join_compares_by_own(plan))
			judgement->reason = LA_REASON_VOLATILE;
		judgement->throws |= la_join_may_throw(expressions);
		judgement->seen.stable |= reads_sequence(planstate);
		list_free(expressions);
	}
	return judgement->reason != LA_REASON_NONE ||
		planstate_tree_walker(planstate, judge_node, judgement);
}

/*
 * The row of a sequence is another one as soon as somebody has taken a value of it.
 */
static bool
reads_sequence(PlanState *planstate)
{
	Relation	relation;

	if (!IsA(planstate, SeqScanState))
		return false;
	relation = ((ScanState *) planstate)->ss_currentRelation;
	return relation->rd_rel->relkind == RELKIND_SEQUENCE;
}

/*
 * Kinds of nodes whose expressions own_expressions() knows, and that do nothing but
 * read.
 */
static bool
is_allowed(const Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapHeapScan:
		case T_BitmapIndexScan:
		case T_BitmapAnd:
		case T_BitmapOr:
		case T_TidScan:
		case T_TidRangeScan:
		case T_SubqueryScan:
		case T_FunctionScan:
		case T_ValuesScan:
		case T_Append:
		case T_MergeAppend:
		case T_Result:
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
		case T_Hash:
		case T_Material:
		case T_Memoize:
		case T_Sort:
		case T_IncrementalSort:
		case T_Agg:
		case T_Group:
		case T_Unique:
		case T_Limit:
		case T_Gather:
		case T_GatherMerge:
			return true;
		default:
			return false;
	}
}

/*
 * Is a node of the statement so?
 */
static bool
is_any_node(const LaQuery *query,
			bool (*is) (PlanState *planstate, LaJoinSeen *seen))
{
	LaJoinSeen	seen = {.query = query};
	ListCell   *lc;

	if (is(query->top, &seen))
		return true;
	foreach(lc, query->estate->es_subplanstates)
	{
		if (lfirst(lc) != NULL && is(lfirst(lc), &seen))
			return true;
	}
	return false;
}

/*
 * planstate_tree_walker callback: could anything in it be volatile?
 */
static bool
is_node_volatile(PlanState *planstate, LaJoinSeen *seen)
{
	const Plan *plan = planstate->plan;
	List	   *expressions = la_join_expressions(plan);
	bool		result;

	result = (!is_allowed(plan) && !IsA(plan, LockRows) &&
			  !IsA(plan, CteScan)) ||
		la_join_is_seen(expressions, seen);
	list_free(expressions);
	return result ||
		planstate_tree_walker(planstate, is_node_volatile, seen);
}

/*
 * planstate_tree_walker callback: does it call a volatile function?
 */
static bool
calls_volatile(PlanState *planstate, LaJoinSeen *seen)
{
	List	   *expressions = la_join_expressions(planstate->plan);
	bool		result = la_join_is_volatile(expressions);

	list_free(expressions);
	return result ||
		planstate_tree_walker(planstate, calls_volatile, seen);
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
