/*-------------------------------------------------------------------------
 *
 * la_insert_search.c
 *	  a search for functions that could see the rows of an insert
 *
 * Which functions count, la_insert_function.c says.  Mirrors contain_volatile_functions() in
 * clauses.c, which finds those that a query names.  Others are called without being named: by
 * operator classes (la_insert_classes.c), and by functions that get the type of a value to know
 * what to call (la_insert_type.c).  A value that is made or looked into by some function has its
 * type in the arguments or the result.
 *
 * Where more would have to be followed, the answer is that rows are seen: aggregates of users, and
 * their functions in SQL in FROM.
 *
 * Perhaps nobody evaluates any of it, or the user may not: so catalogs are read and nothing
 * else is done.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_language_d.h"
#include "catalog/pg_proc.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_coerce.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "bulk_insert/judge/la_insert_search.h"
#include "la_plain.h"

/*
 * What functions and types of users that came up in a search some time ago have called now.  Mirrors
 * LockRelationOid() in lmgr.c, which has core hear of what others have changed since: a
 * statement that is executed again may have all of its locks already.
 */
LaInsertCalls
la_insert_search_again(const List *functions, const List *types)
{
	LaInsertSearch search = {.users = functions != NIL};

	if (functions != NIL)
		AcceptInvalidationMessages();
	foreach_oid(function, functions)
	{
		if (la_insert_function_is_volatile(function))
			return LA_CALLS_SEEING;
	}
	return la_insert_search_types(types, &search) ?
		LA_CALLS_SEEING : la_insert_search_result(&search);
}

/*
 * check_functions_in_node callback.
 */
static bool
sees_rows(Oid function, void *context)
{
	return la_insert_search_function(context, function);
}

/*
 * A call in FROM in whose place the planner may put the function's query.  Relies on
 * inline_set_returning_function() in clauses.c.
 */
static bool
is_call_in_sql(const Node *node)
{
	Oid			function;

	if (node == NULL || !IsA(node, FuncExpr))
		return false;
	function = ((const FuncExpr *) node)->funcid;
	return function >= FirstUnpinnedObjectId &&
		la_insert_language(function, PROVOLATILE_IMMUTABLE) == SQLlanguageId;
}

/*
 * Operators that the planner may put in the place of another: a > b for b < a, and a <> b for
 * NOT a = b.  A user's can be the negator of one of core's.
 */
static bool
search_operators(Oid operator, LaInsertSearch *search)
{
	Oid			negator = get_negator(operator);

	return la_insert_search_function(search, get_opcode(get_commutator(operator))) ||
		(OidIsValid(negator) &&
		 (la_insert_search_function(search, get_opcode(negator)) ||
		  la_insert_search_function(search, get_opcode(get_commutator(negator)))));
}

/*
 * What a plan has an array hashed by: it does so even when the operator's family has let go of it.
 * Relies on convert_saop_to_hashed_saop_walker() in clauses.c.
 */
static bool
search_hash(Oid operator, LaInsertSearch *search)
{
	RegProcedure left;
	RegProcedure right;

	return get_op_hash_functions(operator, &left, &right) &&
		la_insert_search_function(search, left);
}

static bool
search_array(Oid operator, LaInsertSearch *search)
{
	return search_operators(operator, search) || search_hash(operator, search) ||
		search_hash(get_negator(operator), search);
}

/*
 * Rows of constants become an array.  Relies on convert_VALUES_to_ANY() in subselect.c.
 */
static bool
search_rows(const Node *comparison, LaInsertSearch *search)
{
	return comparison != NULL && IsA(comparison, OpExpr) &&
		search_hash(((const OpExpr *) comparison)->opno, search);
}

/*
 * Does a function of core's own cast what it is given, of any type, to text by a function of a user?
 * These are in SQL: which cast that is, is found out when they are planned or called.  Relies on
 * inline_function() in clauses.c.  It is in doubt, whatever it is: a plan that is kept has no such
 * cast then that could become another.
 */
static bool
casts_by_users(Oid function, const List *arguments)
{
	ListCell   *lc;

	switch (function)
	{
		case F_ANYTEXTCAT:
		case F_TEXTANYCAT:
		case F_QUOTE_LITERAL_ANYELEMENT:
		case F_QUOTE_NULLABLE_ANYELEMENT:
			break;
		default:
			return false;
	}
	foreach(lc, arguments)
	{
		if (la_plain_cast(exprType(lfirst(lc)), TEXTOID) >= FirstUnpinnedObjectId)
			return true;
	}
	return false;
}

static bool
search_operation(const OpExpr *node, LaInsertSearch *search)
{
	return casts_by_users(node->opfuncid, node->args) ||
		(node->opno >= FirstUnpinnedObjectId && la_insert_type_says_nothing(node->opresulttype)) ||
		search_operators(node->opno, search);
}

/*
 * Does a node call nothing beside what those below it do?  Listed are all such kinds of
 * PostgreSQL 18 that come up: in what is stored with a table, and in a query that is searched,
 * which has no RETURNING, no ON CONFLICT and no WITH that changes rows (la_insert_reason.c).
 * search_node() has those that do call something; any other kind is in doubt.
 */
static inline bool
calls_nothing(const Node *node)
{
	switch (nodeTag(node))
	{
		case T_List:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CaseExpr:
		case T_CaseTestExpr:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
		case T_CollateExpr:
		case T_FieldSelect:
		case T_FieldStore:
		case T_SubscriptingRef:
		case T_NamedArgExpr:
		case T_GroupingFunc:
		case T_SQLValueFunction:
		case T_NextValueExpr:
		case T_XmlExpr:
		case T_JsonValueExpr:
		case T_JsonIsPredicate:
		case T_JsonBehavior:
		case T_RangeTblRef:
		case T_FromExpr:
		case T_JoinExpr:
		case T_CommonTableExpr:
		case T_CTESearchClause:
		case T_CTECycleClause:
		case T_WithCheckOption:
		case T_TableSampleClause:
			return true;
		default:
			return false;
	}
}

static bool search_walker(Node *node, void *context);

/*
 * A cast that is made without being asked for; of an array each element is cast.  Mirrors
 * coerce_type() in parse_coerce.c.
 */
static bool
search_cast(Oid from, Oid to, LaInsertSearch *search)
{
	Oid			function;

	if (likely(from == to))
		return false;
	if (find_coercion_pathway(to, from, COERCION_IMPLICIT, &function) ==
		COERCION_PATH_ARRAYCOERCE)
		return search_cast(get_element_type(from), get_element_type(to), search);
	return la_insert_search_function(search, function);
}

/*
 * Types of an arm's columns; behind them, of what it only sorts by.
 */
static List *
types_of(const Node *arm, const List *tables)
{
	const RangeTblEntry *table;
	List	   *types = NIL;
	ListCell   *lc;

	if (IsA(arm, SetOperationStmt))
		return ((const SetOperationStmt *) arm)->colTypes;
	table = rt_fetch(((const RangeTblRef *) arm)->rtindex, tables);
	foreach(lc, table->subquery->targetList)
		types = lappend_oid(types, exprType((Node *) lfirst_node(TargetEntry, lc)->expr));
	return types;
}

/*
 * One side of a set operation.  Its columns are cast when it is planned: relies on
 * generate_setop_tlist() in prepunion.c.
 */
static bool
search_arm(const Node *arm, const List *types, LaInsertSearch *search)
{
	ListCell   *from;
	ListCell   *to;

	forboth(from, types_of(arm, search->tables), to, types)
	{
		if (search_cast(lfirst_oid(from), lfirst_oid(to), search))
			return true;
	}
	return false;
}

static bool
search_set_operation(const SetOperationStmt *node, LaInsertSearch *search)
{
	return search_arm(node->larg, node->colTypes, search) ||
		search_arm(node->rarg, node->colTypes, search) ||
		search_walker((Node *) node->groupClauses, search);
}

/*
 * Arguments that a call leaves out, if any.  Mirrors fetch_function_defaults() in clauses.c.  A default
 * that has not the type of its argument is cast to one that the call decides on.  Relies on
 * recheck_cast_function_args() in clauses.c.  Calls in a default are not followed that far: they
 * can be of the same function.  A list of VALUES has thousands of the same call.
 */
static bool
search_defaults(const FuncExpr *call, LaInsertSearch *search)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(call->funcid));
	bool		found = search->of_default;
	List	   *defaults = NIL;
	const oidvector *types;
	Datum		stored;
	bool		is_null;

	/* Others may have just dropped it. */
	if (!HeapTupleIsValid(tuple))
		return true;
	if (list_length(call->args) >= ((Form_pg_proc) GETSTRUCT(tuple))->pronargs)
	{
		ReleaseSysCache(tuple);
		return false;
	}
	types = &((Form_pg_proc) GETSTRUCT(tuple))->proargtypes;
	stored = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_proargdefaults, &is_null);
	if (!is_null)
		defaults = castNode(List, stringToNode(TextDatumGetCString(stored)));
	for (int i = 1; i <= list_length(defaults); i++)
		found |= exprType(list_nth(defaults, list_length(defaults) - i)) !=
			types->values[types->dim1 - i];
	ReleaseSysCache(tuple);
	if (found || is_null)
		return true;
	search->of_default = true;
	found = search_walker((Node *) defaults, search);
	search->of_default = false;
	search->defaulted = lappend_oid(search->defaulted, call->funcid);
	return found;
}

static bool
search_call(const FuncExpr *node, LaInsertSearch *search)
{
	if (node->funcid < FirstUnpinnedObjectId)
		return casts_by_users(node->funcid, node->args);
	return la_insert_type_says_nothing(node->funcresulttype) ||
		(!list_member_oid(search->defaulted, node->funcid) && search_defaults(node, search));
}

/*
 * What a node calls besides the functions that check_functions_in_node() finds, and the nodes
 * below it.  The type of its value is looked at where it need not be that of a node below, or
 * part of it.
 *
 * What a function or operator of a user gives, whose type does not tell what it is made of, is
 * not known; what core's own make of values comes up in the query.
 */
static bool
search_node(Node *node, LaInsertSearch *search)
{
	switch (nodeTag(node))
	{
		case T_SortGroupClause:
			/* ORDER BY, GROUP BY, DISTINCT and the like */
			return la_insert_search_function(search, get_opcode(((SortGroupClause *) node)->eqop)) ||
				la_insert_search_function(search, get_opcode(((SortGroupClause *) node)->sortop));
		case T_WindowClause:
			return la_insert_search_function(search, ((WindowClause *) node)->startInRangeFunc) ||
				la_insert_search_function(search, ((WindowClause *) node)->endInRangeFunc);
		case T_SetOperationStmt:
			return search_set_operation((SetOperationStmt *) node, search);
		case T_RangeTblFunction:
			return la_insert_search_types(((RangeTblFunction *) node)->funccoltypes, search) ||
				is_call_in_sql(((RangeTblFunction *) node)->funcexpr);
		case T_TableFunc:
			return la_insert_search_types(((TableFunc *) node)->coltypes, search);
		case T_ScalarArrayOpExpr:
			return search_array(((ScalarArrayOpExpr *) node)->opno, search);
		case T_SubLink:
			return search_rows(((SubLink *) node)->testexpr, search);
		case T_WindowFunc:
			if (((WindowFunc *) node)->winfnoid >= FirstUnpinnedObjectId)
				return true;
			break;
		case T_Aggref:
			if (((Aggref *) node)->aggfnoid >= FirstUnpinnedObjectId)
				return true;
			break;
		case T_FuncExpr:
			if (search_call((FuncExpr *) node, search))
				return true;
			break;
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			if (search_operation((OpExpr *) node, search))
				return true;
			break;
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_CoerceToDomain:
		case T_ArrayCoerceExpr:
		case T_ConvertRowtypeExpr:
		case T_RowExpr:
		case T_ArrayExpr:
		case T_JsonExpr:
		case T_JsonConstructorExpr:
		case T_RowCompareExpr:
			break;
		default:
			return true;
	}
	return la_insert_search_type(search, exprType(node));
}

/*
 * The rest, kept out of the walker: that is called too often to save registers for this.  What
 * a cast by way of text calls belongs to its types.
 */
static pg_noinline bool
search_other(Node *node, LaInsertSearch *search)
{
	if (!calls_nothing(node) &&
		((!IsA(node, CoerceViaIO) &&
		  check_functions_in_node(node, sees_rows, search)) ||
		 search_node(node, search)))
		return true;
	return expression_tree_walker(node, search_walker, search);
}

/*
 * Arms of set operations are numbers of tables of their query.
 */
static pg_noinline bool
search_query(Query *query, LaInsertSearch *search)
{
	const List *outer = search->tables;
	bool		found;

	search->tables = query->rtable;
	found = query_tree_walker(query, search_walker, search, QTW_EXAMINE_SORTGROUP);
	search->tables = outer;
	return found;
}

/*
 * query_tree_walker and expression_tree_walker callback.
 *
 * Constants come first: a list of VALUES has thousands.  Of what follows, some queries have
 * hundreds, in as many columns.
 */
static bool
search_walker(Node *node, void *context)
{
	Oid			type;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Const:
			type = ((Const *) node)->consttype;
			return la_insert_search_type(context, type) ||
				(!((Const *) node)->constisnull && la_insert_type_says_nothing(type));
		case T_Var:
			/* What a record of the query's own is made of comes up in it. */
			type = ((Var *) node)->vartype;
			return la_insert_search_type(context, type) ||
				(type != RECORDOID && type != RECORDARRAYOID && la_insert_type_says_nothing(type));
		case T_Param:
			type = ((Param *) node)->paramtype;
			return la_insert_search_type(context, type) ||
				(((Param *) node)->paramkind == PARAM_EXTERN && la_insert_type_says_nothing(type));
		case T_TargetEntry:
			return search_walker((Node *) ((TargetEntry *) node)->expr, context);
		case T_Query:
			return search_query((Query *) node, context);
		default:
			return search_other(node, context);
	}
}

/*
 * Can evaluating this call a volatile function that could look at tables?  Of a query,
 * an expression, or a list of expressions.  One that is evaluated when later rows have been
 * made (LaInsertSearch.deferred) must not call any volatile function: the current value of a
 * sequence and the next random number depend on that.
 */
bool
la_insert_search(Node *expression, LaInsertSearch *search)
{
	return search_walker(expression, search);
}
