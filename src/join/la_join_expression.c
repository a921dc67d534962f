/*-------------------------------------------------------------------------
 *
 * la_join_expression.c
 *	  what the expressions of a plan node could show, if they were evaluated early
 *
 * A function that an expression names is taken by its word, whoever made it.
 * What core calls besides, of operator classes, types and aggregates, must be
 * the server's own: nothing is known of what users have made of these, other
 * than enums.  An index may be of a user's operator class, whose functions say
 * what they are.
 *
 * Reads EState of execnodes.h, and plannodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/transam.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_index.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type_d.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "join/la_join_expression.h"
#include "la_plain.h"

typedef struct FunctionKind
{
	char		volatility;
	bool		leakproof;
} FunctionKind;

/*
 * Is a node of a kind that does nothing but read, and whose expressions la_join_expressions()
 * knows?
 */
bool
la_join_is_known(const Plan *plan)
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
 * What a plan node evaluates beside its target list and its filter.
 */
static List *
other_expressions(const Plan *plan)
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

/*
 * What a plan node evaluates, if it is of a kind that joins are drawn ahead over.
 */
List *
la_join_expressions(const Plan *plan)
{
	return list_make3(plan->targetlist, plan->qual, other_expressions(plan));
}

/*
 * An operator of the server's that is in no family of its own may sort in that of a user.
 */
static bool
has_users_operator(const Oid *operators, int count)
{
	for (int i = 0; i < count; i++)
	{
		Oid			left;
		Oid			right;
		Oid			family;
		CompareType order;

		if (operators[i] >= FirstUnpinnedObjectId ||
			(get_ordering_op_properties(operators[i], &family, &left, &order) &&
			 family >= FirstUnpinnedObjectId))
			return true;
		op_input_types(operators[i], &left, &right);
		if ((IsPolymorphicType(left) && left != ANYENUMOID) || left == RECORDOID)
			return true;
	}
	return false;
}

static bool
has_users_clause(List *clauses)
{
	foreach_node(OpExpr, clause, clauses)
	{
		if (clause->opno >= FirstUnpinnedObjectId)
			return true;
	}
	return false;
}

/*
 * Does a node sort, group or hash by functions of users?  Those of an array's parts, or a
 * record's or range's, may be: of hash and merge joins their expressions tell.
 */
bool
la_join_compares_by_users(const Plan *plan)
{
#define COMPARES_BY_USERS(type, operators, count) \
	has_users_operator(((const type *) plan)->operators, ((const type *) plan)->count)

	switch (nodeTag(plan))
	{
		case T_Sort:
		case T_IncrementalSort:
			return COMPARES_BY_USERS(Sort, sortOperators, numCols);
		case T_MergeAppend:
			return COMPARES_BY_USERS(MergeAppend, sortOperators, numCols);
		case T_GatherMerge:
			return COMPARES_BY_USERS(GatherMerge, sortOperators, numCols);
		case T_Agg:
			foreach_node(Agg, chained, ((const Agg *) plan)->chain)
			{
				if (la_join_compares_by_users(&chained->plan))
					return true;
			}
			return COMPARES_BY_USERS(Agg, grpOperators, numCols);
		case T_Group:
			return COMPARES_BY_USERS(Group, grpOperators, numCols);
		case T_Unique:
			return COMPARES_BY_USERS(Unique, uniqOperators, numCols);
		case T_Memoize:
			return COMPARES_BY_USERS(Memoize, hashOperators, numKeys);
		case T_HashJoin:
			return has_users_clause(((const HashJoin *) plan)->hashclauses);
		case T_MergeJoin:
			for (int i = 0; i < list_length(((const MergeJoin *) plan)->mergeclauses); i++)
			{
				if (((const MergeJoin *) plan)->mergeFamilies[i] >= FirstUnpinnedObjectId)
					return true;
			}
			return has_users_clause(((const MergeJoin *) plan)->mergeclauses);
		default:
			return false;
	}
}

/*
 * What the catalogue says of a function.  Of one that somebody has dropped,
 * while the plan runs, nothing is known.
 */
static FunctionKind
function_kind(Oid function)
{
	FunctionKind kind = {PROVOLATILE_VOLATILE, false};
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));

	if (!HeapTupleIsValid(tuple))
		return kind;
	kind.volatility = ((Form_pg_proc) GETSTRUCT(tuple))->provolatile;
	kind.leakproof = ((Form_pg_proc) GETSTRUCT(tuple))->proleakproof;
	ReleaseSysCache(tuple);
	return kind;
}

/*
 * check_functions_in_node callback.
 */
static bool
is_users(Oid function, void *context)
{
	return function >= FirstUnpinnedObjectId;
}

/*
 * check_functions_in_node callback.
 */
static bool
is_seen_function(Oid function, void *context)
{
	LaJoinSeen *seen = (LaJoinSeen *) context;
	char		volatility = function_kind(function).volatility;

	seen->calls_users |= is_users(function, NULL);
	seen->stable |= volatility == PROVOLATILE_STABLE;
	return volatility == PROVOLATILE_VOLATILE;
}

/*
 * Could somebody see that a class of an index looks up early?  That of BRIN
 * calls the operators of its family, too.
 */
static bool
is_class_seen(Oid class, LaJoinSeen *seen)
{
	Oid			family;
	Oid			type;
	CatCList   *functions;
	bool		result = false;

	if (class < FirstUnpinnedObjectId)
		return false;
	if (!get_opclass_opfamily_and_input_type(class, &family, &type) ||
		get_opclass_method(class) == BRIN_AM_OID)
		return true;
	functions = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(family));
	for (int i = 0; i < functions->n_members; i++)
		result |= is_seen_function(((Form_pg_amproc) GETSTRUCT(&functions->members[i]->tuple))->amproc,
								   seen);
	ReleaseSysCacheList(functions);
	return result;
}

/*
 * Does a scan call functions of an index that somebody could see?  The index
 * of a partition that is not scanned this time is locked by nobody, and may be
 * gone: so it is not opened.
 */
static bool
looks_up_seen(const Plan *plan, LaJoinSeen *seen)
{
	Oid			index = IsA(plan, IndexScan) ? ((const IndexScan *) plan)->indexid :
		IsA(plan, IndexOnlyScan) ? ((const IndexOnlyScan *) plan)->indexid :
		IsA(plan, BitmapIndexScan) ? ((const BitmapIndexScan *) plan)->indexid : InvalidOid;
	HeapTuple	tuple;
	const oidvector *classes;
	bool		result = false;

	if (!OidIsValid(index))
		return false;
	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	if (!HeapTupleIsValid(tuple))
		return true;
	classes = (const oidvector *) DatumGetPointer(SysCacheGetAttrNotNull(INDEXRELID, tuple,
																		 Anum_pg_index_indclass));
	for (int i = 0; i < classes->dim1; i++)
		result |= is_class_seen(classes->values[i], seen);
	ReleaseSysCache(tuple);
	return result;
}

static bool
compares_rows_by_users(const RowCompareExpr *compare)
{
	foreach_oid(family, compare->opfamilies)
	{
		if (family >= FirstUnpinnedObjectId)
			return true;
	}
	foreach_ptr(Node, left, compare->largs)
	{
		if (!la_plain_type(exprType(left)))
			return true;
	}
	return false;
}

/*
 * Does one of the server's own functions get an argument of a type to which
 * functions of users may belong?
 */
static bool
gets_users_type(Node *node)
{
	Oid			type;

	if (check_functions_in_node(node, is_users, NULL))
		return false;
	for (int i = 0; OidIsValid(type = get_call_expr_argtype(node, i)); i++)
	{
		if (!la_plain_type(type))
			return true;
	}
	return false;
}

/*
 * May a node call functions of users, other than those that
 * check_functions_in_node() finds: those of the parts of a value, what an
 * operator is executed by, or one by its name?
 */
static bool
calls_users(Node *node)
{
	Node	   *test;

	switch (nodeTag(node))
	{
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_FuncExpr:
			return gets_users_type(node) ||
				check_functions_in_node(node, la_plain_calls_by_name, NULL);
		case T_ScalarArrayOpExpr:
			return is_users(((ScalarArrayOpExpr *) node)->hashfuncid, NULL) ||
				is_users(((ScalarArrayOpExpr *) node)->negfuncid, NULL) ||
				gets_users_type(node);
		case T_WindowFunc:
			return is_users(((WindowFunc *) node)->winfnoid, NULL) || gets_users_type(node);
		case T_Aggref:
			return is_users(((Aggref *) node)->aggfnoid, NULL) ||
				!la_plain_types(((Aggref *) node)->aggargtypes);
		case T_RangeTblFunction:
			return !la_plain_types(((RangeTblFunction *) node)->funccoltypes);
		case T_RowCompareExpr:
			return compares_rows_by_users((RowCompareExpr *) node);
		case T_SortGroupClause:
			return has_users_operator(&((SortGroupClause *) node)->eqop, 1) ||
				(OidIsValid(((SortGroupClause *) node)->sortop) &&
				 has_users_operator(&((SortGroupClause *) node)->sortop, 1));
		case T_MinMaxExpr:
			return !la_plain_type(((MinMaxExpr *) node)->minmaxtype);
		case T_CoerceViaIO:
			return !la_plain_type(((CoerceViaIO *) node)->resulttype) ||
				!la_plain_type(exprType((Node *) ((CoerceViaIO *) node)->arg));
		case T_SubscriptingRef:
			return !la_plain_type(((SubscriptingRef *) node)->refcontainertype);
		case T_JsonExpr:
			return !la_plain_type(((JsonExpr *) node)->returning->typid);
		case T_SubPlan:
			test = ((SubPlan *) node)->testexpr;
			return ((SubPlan *) node)->useHashTable &&
				has_users_clause(IsA(test, BoolExpr) ? ((BoolExpr *) test)->args : list_make1(test));
		case T_SQLValueFunction:
		case T_ArrayExpr:
		case T_ArrayCoerceExpr:
		case T_RowExpr:
		case T_FieldSelect:
		case T_ConvertRowtypeExpr:
		case T_GroupingFunc:
		case T_JsonValueExpr:
		case T_JsonBehavior:
		case T_JsonIsPredicate:
			return false;
		default:
			return !la_plain_node(node);
	}
}

/*
 * expression_tree_walker callback: could somebody see that this is evaluated
 * early?  What is not known here may be.  Nor is it known what the plan does
 * of an expression that nobody has wanted so far.
 */
static bool
is_seen(Node *node, void *context)
{
	LaJoinSeen *seen = (LaJoinSeen *) context;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			/* What others, or the statement itself, do to the row. */
			if (((Var *) node)->varattno < 0 &&
				((Var *) node)->varattno != TableOidAttributeNumber &&
				((Var *) node)->varattno != SelfItemPointerAttributeNumber)
				seen->stable = true;
			return false;
		case T_Param:
			if (((Param *) node)->paramkind == PARAM_EXEC)
				seen->parameters = bms_add_member(seen->parameters,
												  ((Param *) node)->paramid);
			return false;
		case T_SubPlan:
			seen->subplans = bms_add_member(seen->subplans,
											((SubPlan *) node)->plan_id);
			break;
		case T_JsonExpr:		/* of times: by a setting */
		case T_SQLValueFunction:
			seen->stable = true;
			break;
		default:
			break;
	}
	return calls_users(node) ||
		check_functions_in_node(node, is_seen_function, seen) ||
		expression_tree_walker(node, is_seen, seen);
}

/*
 * Could somebody see that a node evaluates such expressions early, or looks up
 * by them?  Notes in "seen" when one depends on what a volatile function may
 * change.
 */
bool
la_join_is_seen(const Plan *plan, List *expressions, LaJoinSeen *seen)
{
	return is_seen((Node *) expressions, seen) || looks_up_seen(plan, seen);
}

/*
 * check_functions_in_node callback.  One that is marked as leakproof does not take any collation.
 */
static bool
is_not_leakproof(Oid function, void *context)
{
	return !function_kind(function).leakproof || function == F_STARTS_WITH;
}

/*
 * Are texts compared whose collations differ?  That is not told before it is done.
 */
static bool
lacks_collation(Node *node)
{
	ListCell   *lc;
	List	   *arguments = IsA(node, FuncExpr) ? ((FuncExpr *) node)->args :
		IsA(node, ScalarArrayOpExpr) ? ((ScalarArrayOpExpr *) node)->args :
		((OpExpr *) node)->args;

	if (OidIsValid(exprInputCollation(node)))
		return false;
	foreach(lc, arguments)
	{
		if (type_is_collatable(exprType(lfirst(lc))))
			return true;
	}
	return false;
}

/*
 * expression_tree_walker callback: could this throw?
 */
static bool
may_throw(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) || IsA(node, OpExpr) || IsA(node, DistinctExpr) ||
		IsA(node, ScalarArrayOpExpr))
	{
		if (check_functions_in_node(node, is_not_leakproof, NULL) ||
			lacks_collation(node))
			return true;
	}
	else if (!la_plain_node(node))
		return true;
	return expression_tree_walker(node, may_throw, context);
}

/*
 * Could they throw?  Of those that nobody sees.
 */
bool
la_join_may_throw(List *expressions)
{
	return may_throw((Node *) expressions, NULL);
}
