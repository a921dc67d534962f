/*-------------------------------------------------------------------------
 *
 * la_join_expression.c
 *	  what the expressions of a plan node could show, if they were evaluated early
 *
 * Functions of a plan that runs can be dropped by others, and core goes on with what it has
 * prepared.  So nothing here throws when one is not found.
 *
 * Reads EState of execnodes.h, and plannodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/transam.h"
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

/* Of one that was dropped, the worst. */
typedef struct FunctionKind
{
	char		volatility;
	bool		leakproof;
} FunctionKind;

static List *own_expressions(const Plan *plan);
static bool are_own_operators(const Oid *operators, int count);
static bool class_is_volatile(Oid class, LaJoinSeen *seen);
static bool is_seen(Node *node, LaJoinSeen *seen);
static bool sorts_by_own(List *clauses);
static bool is_volatile(Oid function, void *context);
static bool calls_unnamed(Node *node);
static bool has_own_parts(Oid type);
static bool runs_by_name(Oid function, void *context);
static bool calls_own(Node *node, void *context);
static bool is_own(Oid function, void *context);
static bool may_throw(Node *node, void *context);
static bool is_not_leakproof(Oid function, void *context);
static bool lacks_collation(Node *node);
static FunctionKind function_kind(Oid function);

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
 * What a plan node evaluates, if it is of a kind that joins are drawn ahead over.
 */
List *
la_join_expressions(const Plan *plan)
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

/*
 * Does a node sort, group or hash by functions of users?  Those of an array's parts, or a
 * record's or range's, may be.
 */
bool
la_join_compares_by_own(const Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_Sort:
		case T_IncrementalSort:
			return are_own_operators(((const Sort *) plan)->sortOperators,
									 ((const Sort *) plan)->numCols);
		case T_MergeAppend:
			return are_own_operators(((const MergeAppend *) plan)->sortOperators,
									 ((const MergeAppend *) plan)->numCols);
		case T_GatherMerge:
			return are_own_operators(((const GatherMerge *) plan)->sortOperators,
									 ((const GatherMerge *) plan)->numCols);
		case T_Agg:
			foreach_node(Agg, chained, ((const Agg *) plan)->chain)
			{
				if (la_join_compares_by_own(&chained->plan))
					return true;
			}
			return are_own_operators(((const Agg *) plan)->grpOperators,
									 ((const Agg *) plan)->numCols);
		case T_Group:
			return are_own_operators(((const Group *) plan)->grpOperators,
									 ((const Group *) plan)->numCols);
		case T_Unique:
			return are_own_operators(((const Unique *) plan)->uniqOperators,
									 ((const Unique *) plan)->numCols);
		case T_Memoize:
			return are_own_operators(((const Memoize *) plan)->hashOperators,
									 ((const Memoize *) plan)->numKeys);
		case T_HashJoin:
		case T_MergeJoin:
			foreach_node(OpExpr, clause, IsA(plan, HashJoin) ?
						 ((const HashJoin *) plan)->hashclauses :
						 ((const MergeJoin *) plan)->mergeclauses)
			{
				if (are_own_operators(&clause->opno, 1))
					return true;
			}
			return false;
		default:
			return false;
	}
}

static bool
are_own_operators(const Oid *operators, int count)
{
	for (int i = 0; i < count; i++)
	{
		Oid			left;
		Oid			right;

		if (operators[i] >= FirstNormalObjectId)
			return true;
		op_input_types(operators[i], &left, &right);
		if ((IsPolymorphicType(left) && left != ANYENUMOID) || left == RECORDOID)
			return true;
	}
	return false;
}

/*
 * Does a scan call functions of an index that are volatile?  Notes in "seen" when one is stable.  The index of a
 * partition that is not scanned this time is locked by nobody, and may be gone: so it is not opened.
 */
bool
la_join_looks_up_by_own(const Plan *plan, LaJoinSeen *seen)
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
	for (int i = 0; i < classes->dim1 && !result; i++)
		result = is_own(classes->values[i], NULL) && class_is_volatile(classes->values[i], seen);
	ReleaseSysCache(tuple);
	return result;
}

/*
 * Is a support function of an operator class's family volatile?
 */
static bool
class_is_volatile(Oid class, LaJoinSeen *seen)
{
	Oid			family;
	Oid			type;
	CatCList   *functions;
	bool		result = false;

	if (!get_opclass_opfamily_and_input_type(class, &family, &type))
		return true;
	functions = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(family));
	for (int i = 0; i < functions->n_members; i++)
		result |= is_volatile(((Form_pg_amproc) GETSTRUCT(&functions->members[i]->tuple))->amproc,
							  seen);
	ReleaseSysCacheList(functions);
	return result;
}

/*
 * Could somebody see that such expressions are evaluated early?  Notes in "seen" when one depends on
 * what a volatile function may change.
 */
bool
la_join_is_seen(List *expressions, LaJoinSeen *seen)
{
	return is_seen((Node *) expressions, seen);
}

/*
 * Could they throw?
 */
bool
la_join_may_throw(List *expressions)
{
	return may_throw((Node *) expressions, NULL);
}

/*
 * expression_tree_walker callback: could somebody see that this is evaluated early?  Mirrors
 * contain_volatile_functions() in clauses.c.  Nothing is known about the functions that an aggregate consists of,
 * that a domain checks or that read and write a type of a user, nor what the plan does of an expression that
 * nobody has wanted so far.
 */
static bool
is_seen(Node *node, LaJoinSeen *seen)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_NextValueExpr:
		case T_CoerceToDomain:
		case T_JsonConstructorExpr:
		case T_XmlExpr:
			return true;
		case T_JsonExpr:
			if (((JsonExpr *) node)->returning->typid >= FirstNormalObjectId)
				return true;
			break;
		case T_MinMaxExpr:
			if (has_own_parts(((MinMaxExpr *) node)->minmaxtype))
				return true;
			break;
		case T_Var:
			/* What others, or the statement itself, do to the row. */
			if (((Var *) node)->varattno < 0 &&
				((Var *) node)->varattno != TableOidAttributeNumber &&
				((Var *) node)->varattno != SelfItemPointerAttributeNumber)
				seen->stable = true;
			break;
		case T_SQLValueFunction:
			seen->stable = true;
			break;
		case T_Aggref:
			if (((Aggref *) node)->aggfnoid >= FirstNormalObjectId ||
				sorts_by_own(((Aggref *) node)->aggorder) ||
				sorts_by_own(((Aggref *) node)->aggdistinct))
				return true;
			break;
		case T_CoerceViaIO:
			if (((CoerceViaIO *) node)->resulttype >= FirstNormalObjectId ||
				exprType((Node *) ((CoerceViaIO *) node)->arg) >= FirstNormalObjectId)
				return true;
			break;
		case T_Param:
			if (((Param *) node)->paramkind == PARAM_EXEC)
				seen->parameters = bms_add_member(seen->parameters,
												  ((Param *) node)->paramid);
			break;
		case T_SubPlan:
			if (((SubPlan *) node)->useHashTable &&
				calls_own(((SubPlan *) node)->testexpr, NULL))
				return true;
			seen->subplans = bms_add_member(seen->subplans,
											((SubPlan *) node)->plan_id);
			break;
		default:
			break;
	}
	return check_functions_in_node(node, is_volatile, seen) ||
		calls_unnamed(node) ||
		expression_tree_walker(node, is_seen, seen);
}

/*
 * May the server call, for this expression, functions of users that it does not name: those of the parts of a value,
 * or what an operator is executed by?
 */
static bool
calls_unnamed(Node *node)
{
	List	   *arguments = NIL;

	switch (nodeTag(node))
	{
		case T_FuncExpr:
			arguments = ((FuncExpr *) node)->args;
			break;
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			arguments = ((OpExpr *) node)->args;
			break;
		case T_RowCompareExpr:
			arguments = list_concat_copy(((RowCompareExpr *) node)->largs,
										 ((RowCompareExpr *) node)->rargs);
			break;
		case T_Aggref:
			foreach_oid(type, ((Aggref *) node)->aggargtypes)
			{
				if (has_own_parts(type))
					return true;
			}
			return false;
		case T_ScalarArrayOpExpr:
			{
				const ScalarArrayOpExpr *any = (const ScalarArrayOpExpr *) node;

				if (is_own(any->hashfuncid, NULL) || is_own(any->negfuncid, NULL))
					return true;
				arguments = any->args;
				break;
			}
		case T_RangeTblFunction:
			foreach_oid(type, ((RangeTblFunction *) node)->funccoltypes)
			{
				if (has_own_parts(type))
					return true;
			}
			return false;
		default:
			return false;
	}
	if (check_functions_in_node(node, is_own, NULL))
		return false;			/* it is asked itself */
	foreach_ptr(Node, argument, arguments)
	{
		if (has_own_parts(exprType(argument)))
			return true;
	}
	return check_functions_in_node(node, runs_by_name, NULL);
}

/*
 * May functions of users be those of the type's parts?
 */
static bool
has_own_parts(Oid type)
{
	Oid			element = get_element_type(type);

	if (OidIsValid(element))
		type = element;
	return type == RECORDOID ||
		(type >= FirstNormalObjectId && get_typtype(type) != TYPTYPE_ENUM);
}

/*
 * check_functions_in_node callback: does the server's own function execute what it is told by name?
 */
static bool
runs_by_name(Oid function, void *context)
{
	switch (function)
	{
		case F_PG_INPUT_IS_VALID:
		case F_PG_INPUT_ERROR_INFO:
		case F_TABLE_TO_XML:
		case F_TABLE_TO_XML_AND_XMLSCHEMA:
		case F_SCHEMA_TO_XML:
		case F_SCHEMA_TO_XML_AND_XMLSCHEMA:
		case F_DATABASE_TO_XML:
		case F_DATABASE_TO_XML_AND_XMLSCHEMA:
			return true;
		default:
			return false;
	}
}

/*
 * Are an aggregate's values sorted, or compared for DISTINCT, by functions of users?
 */
static bool
sorts_by_own(List *clauses)
{
	foreach_node(SortGroupClause, clause, clauses)
	{
		if (are_own_operators(&clause->eqop, 1) ||
			(OidIsValid(clause->sortop) && are_own_operators(&clause->sortop, 1)))
			return true;
	}
	return false;
}

/*
 * Does one call a function of a user, whatever its volatility?  It may say something, or do what a volatile one does.
 */
bool
la_join_calls_own(List *expressions)
{
	return calls_own((Node *) expressions, NULL);
}

/*
 * expression_tree_walker callback.
 */
static bool
calls_own(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return (IsA(node, WindowFunc) && ((WindowFunc *) node)->winfnoid >= FirstNormalObjectId) ||
		check_functions_in_node(node, is_own, NULL) ||
		calls_unnamed(node) ||
		expression_tree_walker(node, calls_own, context);
}

/*
 * check_functions_in_node callback.
 */
static bool
is_own(Oid function, void *context)
{
	return function >= FirstNormalObjectId;
}

/*
 * check_functions_in_node callback.
 */
static bool
is_volatile(Oid function, void *context)
{
	LaJoinSeen *seen = (LaJoinSeen *) context;
	FunctionKind kind = function_kind(function);

	if (kind.volatility == PROVOLATILE_STABLE)
		seen->stable = true;
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
			if (check_functions_in_node(node, is_not_leakproof, NULL) ||
				lacks_collation(node))
				return true;
			break;
		default:
			return true;
	}
	return expression_tree_walker(node, may_throw, context);
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
