/*-------------------------------------------------------------------------
 *
 * la_join_judge.c
 *	  may outer rows of a join be drawn ahead of their turn?
 *
 * What the outer side does for a row must not be seen to happen early.  So only kinds of nodes are
 * allowed whose expressions are all known here, without volatile functions, locks or changes.  And it
 * must happen at all: where nobody says that the join will be read to its end (la_join_end.c), its
 * last rows may be left unread, and an error of an expression for one of them would be one that
 * stock does not raise.  There expressions must not be able to throw, which
 * PostgreSQL says of leakproof functions, and under SERIALIZABLE nothing is drawn
 * ahead, because rows that are read are locked.
 *
 * A stable function may read what a volatile one changes between two rows, such as a setting.  So
 * with those on the outer side, nothing may be volatile in the whole statement, nor may its
 * rows be fetched a few at a time.
 *
 * Functions of a plan that runs can be dropped by others, and core goes on with what it has
 * prepared.  So we must not throw when one is not found.
 *
 * Below a Sort, and below the Hash of a hash join, all is read for the first row, so that
 * nothing happens there ahead of its turn.
 *
 * A loop in the outer side that sets the same parameters would go on with values of a row that we
 * have handed out.  The planner gives each loop its own (relies on replace_nestloop_param_var() in
 * paramassign.c), but that is looked at.
 *
 * Reads NestLoopState of execnodes.h, and NestLoop of plannodes.h and others of its nodes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_proc.h"
#include "nodes/nodeFuncs.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "join/la_join_end.h"
#include "join/la_join_judge.h"

typedef struct Judgement
{
	const NestLoop *join;
	EState	   *estate;
	bool		read_to_end;	/* will all outer rows be wanted? */
	bool		stable;			/* was a function met that is not immutable? */
	LaReason	reason;
} Judgement;

/* Of one that was dropped, the worst. */
typedef struct FunctionKind
{
	char		volatility;
	bool		leakproof;
} FunctionKind;

static bool judge_node(PlanState *planstate, Judgement *judgement);
static bool is_allowed(const Plan *plan);
static bool is_statement_volatile(const LaQuery *query, Judgement *judgement);
static bool is_node_volatile(PlanState *planstate, Judgement *judgement);
static List *all_expressions(const Plan *plan);
static List *own_expressions(const Plan *plan);
static bool shares_parameter(const NestLoop *join, const NestLoop *other);
static bool is_early_visible(Node *node, Judgement *judgement);
static bool is_volatile(Oid function, void *context);
static bool may_throw(Node *node, void *context);
static bool is_not_leakproof(Oid function, void *context);
static FunctionKind function_kind(Oid function);

/*
 * Why not, or LA_REASON_NONE.
 */
LaReason
la_join_judge(NestLoopState *join, const LaNode *node)
{
	Snapshot	snapshot = join->js.ps.state->es_snapshot;
	Judgement	judgement = {
		.join = (const NestLoop *) join->js.ps.plan,
		.estate = join->js.ps.state,
		.read_to_end = la_join_is_read_to_end(node),
		.reason = LA_REASON_NONE
	};

	if (snapshot == NULL || snapshot->snapshot_type != SNAPSHOT_MVCC)
		return LA_REASON_SNAPSHOT;
	if (!judgement.read_to_end && IsolationIsSerializable())
		return LA_REASON_EARLY_STOP;
	if (!judge_node(outerPlanState(join), &judgement) && judgement.stable &&
		(node->query->partial_fetch ||
		 is_statement_volatile(node->query, &judgement)))
		return LA_REASON_VOLATILE;
	return judgement.reason;
}

/*
 * planstate_tree_walker callback, which sees the plans of expressions, too.
 */
static bool
judge_node(PlanState *planstate, Judgement *judgement)
{
	const Plan *plan = planstate->plan;
	bool		read_to_end = judgement->read_to_end;
	List	   *expressions;

	if (!is_allowed(plan) ||
		(IsA(plan, NestLoop) &&
		 shares_parameter(judgement->join, (const NestLoop *) plan)))
		judgement->reason = LA_REASON_OUTER_SIDE;
	else
	{
		expressions = all_expressions(plan);
		if (is_early_visible((Node *) expressions, judgement))
			judgement->reason = LA_REASON_VOLATILE;
		else if (!read_to_end && may_throw((Node *) expressions, NULL))
			judgement->reason = LA_REASON_EARLY_STOP;
		list_free(expressions);
	}
	if (judgement->reason != LA_REASON_NONE)
		return true;

	if (IsA(plan, Sort) || IsA(plan, Hash))
		judgement->read_to_end = true;
	planstate_tree_walker(planstate, judge_node, judgement);
	judgement->read_to_end = read_to_end;
	return judgement->reason != LA_REASON_NONE;
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
 * Could anything in a statement be volatile?
 */
static bool
is_statement_volatile(const LaQuery *query, Judgement *judgement)
{
	ListCell   *lc;

	if (is_node_volatile(query->top, judgement))
		return true;
	foreach(lc, query->estate->es_subplanstates)
	{
		if (lfirst(lc) != NULL && is_node_volatile(lfirst(lc), judgement))
			return true;
	}
	return false;
}

/*
 * planstate_tree_walker callback.
 */
static bool
is_node_volatile(PlanState *planstate, Judgement *judgement)
{
	const Plan *plan = planstate->plan;
	List	   *expressions = all_expressions(plan);
	bool		result;

	result = (!is_allowed(plan) && !IsA(plan, LockRows) &&
			  !IsA(plan, CteScan)) ||
		is_early_visible((Node *) expressions, judgement);
	list_free(expressions);
	return result ||
		planstate_tree_walker(planstate, is_node_volatile, judgement);
}

/*
 * What a plan node evaluates, if it is of an allowed kind.
 */
static List *
all_expressions(const Plan *plan)
{
	return list_make3(plan->targetlist, plan->qual, own_expressions(plan));
}

/*
 * The same beside its target list and its filter.
 */
static List *
own_expressions(const Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_IndexScan:
			return list_make2(((IndexScan *) plan)->indexqual,
							  ((IndexScan *) plan)->indexorderby);
		case T_IndexOnlyScan:
			return list_make3(((IndexOnlyScan *) plan)->indexqual,
							  ((IndexOnlyScan *) plan)->recheckqual,
							  ((IndexOnlyScan *) plan)->indexorderby);
		case T_BitmapHeapScan:
			return ((BitmapHeapScan *) plan)->bitmapqualorig;
		case T_BitmapIndexScan:
			return ((BitmapIndexScan *) plan)->indexqual;
		case T_TidScan:
			return ((TidScan *) plan)->tidquals;
		case T_TidRangeScan:
			return ((TidRangeScan *) plan)->tidrangequals;
		case T_FunctionScan:
			return ((FunctionScan *) plan)->functions;
		case T_ValuesScan:
			return ((ValuesScan *) plan)->values_lists;
		case T_Result:
			return (List *) ((Result *) plan)->resconstantqual;
		case T_NestLoop:
			return ((Join *) plan)->joinqual;
		case T_MergeJoin:
			return list_make2(((Join *) plan)->joinqual,
							  ((MergeJoin *) plan)->mergeclauses);
		case T_HashJoin:
			return list_make2(((Join *) plan)->joinqual,
							  ((HashJoin *) plan)->hashclauses);
		case T_Hash:
			return ((Hash *) plan)->hashkeys;
		case T_Memoize:
			return ((Memoize *) plan)->param_exprs;
		case T_Limit:
			return list_make2(((Limit *) plan)->limitOffset,
							  ((Limit *) plan)->limitCount);
		default:
			return NIL;
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
 * expression_tree_walker callback: could somebody see that this is evaluated early?  Mirrors
 * contain_volatile_functions() in clauses.c.  Nothing is known about the functions that an aggregate consists of,
 * that a domain checks or that read and write a type of a user, nor what the plan does of an expression that
 * nobody has wanted so far.
 */
static bool
is_early_visible(Node *node, Judgement *judgement)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_NextValueExpr:
		case T_CoerceToDomain:
			return true;
		case T_SQLValueFunction:
			judgement->stable = true;
			break;
		case T_Aggref:
			if (((Aggref *) node)->aggfnoid >= FirstNormalObjectId)
				return true;
			break;
		case T_CoerceViaIO:
			if (((CoerceViaIO *) node)->resulttype >= FirstNormalObjectId ||
				exprType((Node *) ((CoerceViaIO *) node)->arg) >= FirstNormalObjectId)
				return true;
			break;
		case T_Param:
			if (((Param *) node)->paramkind == PARAM_EXEC &&
				judgement->estate->es_param_exec_vals[((Param *) node)->paramid].execPlan != NULL)
				return true;
			break;
		default:
			break;
	}
	return check_functions_in_node(node, is_volatile, judgement) ||
		expression_tree_walker(node, is_early_visible, judgement);
}

/*
 * check_functions_in_node callback.
 */
static bool
is_volatile(Oid function, void *context)
{
	Judgement  *judgement = (Judgement *) context;
	FunctionKind kind = function_kind(function);

	if (kind.volatility == PROVOLATILE_STABLE)
		judgement->stable = true;
	return kind.volatility == PROVOLATILE_VOLATILE;
}

/*
 * expression_tree_walker callback: could this throw?
 */
static bool
may_throw(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_List:
		case T_TargetEntry:
		case T_Var:
		case T_Const:
		case T_Param:
		case T_RelabelType:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
		case T_CoalesceExpr:
			break;
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_ScalarArrayOpExpr:
			if (check_functions_in_node(node, is_not_leakproof, NULL))
				return true;
			break;
		default:
			return true;
	}
	return expression_tree_walker(node, may_throw, context);
}

/*
 * check_functions_in_node callback.
 */
static bool
is_not_leakproof(Oid function, void *context)
{
	return !function_kind(function).leakproof;
}

/*
 * What the catalogue says of a function.
 */
static FunctionKind
function_kind(Oid function)
{
	FunctionKind kind = {PROVOLATILE_VOLATILE, false};
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));

	if (HeapTupleIsValid(tuple))
	{
		Form_pg_proc form = (Form_pg_proc) GETSTRUCT(tuple);

		kind.volatility = form->provolatile;
		kind.leakproof = form->proleakproof;
		ReleaseSysCache(tuple);
	}
	return kind;
}
