/*-------------------------------------------------------------------------
 *
 * la_insert_volatile.c
 *	  whether an expression names a function that sees new rows
 *
 * Mirrors contain_volatile_functions() in clauses.c, which finds the functions that a
 * query names.  Others are called without being named: by functions that get the type of
 * a value to know what to call.  So every type that comes up in the query is looked at, too
 * (la_insert_type.c): a value that is made or looked into by some function has its type in the
 * arguments or the result.  Where somebody's function has more behind it than its name says
 * (an aggregate, a default of an argument, a query in FROM), it is in doubt.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "bulk_insert/judge/la_insert_function.h"
#include "bulk_insert/judge/la_insert_type.h"
#include "bulk_insert/judge/la_insert_volatile.h"

static bool search_other(Node *node, LaInsertSearch *search);
static bool is_unknown_column(const Var *column);
static bool search_node(Node *node, LaInsertSearch *search);
static bool search_value(Node *node, LaInsertSearch *search);
static bool gives_unknown(Oid object, Oid type);
static bool is_users_call(const Node *node);
static bool leaves_out_arguments(const FuncExpr *call);
static bool search_operator(Oid operator, LaInsertSearch *search);
static bool search_types(List *list, LaInsertSearch *search);
static bool sees_rows(Oid function, void *context);
static bool converts_seeing_rows(Oid function, void *context);

/*
 * Does evaluating this call a volatile function that could look at tables, but for what is
 * called because of a type?  Types that come up are noted, in a LaInsertSearch.  Of a query, an expression, or
 * a list of expressions: query_tree_walker and expression_tree_walker callback.
 *
 * Constants come first: a list of VALUES has thousands.  Of what follows, some queries have hundreds, in as many columns.
 */
bool
la_insert_walk(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Const:
			la_insert_note_type(context, ((Const *) node)->consttype);
			return !((Const *) node)->constisnull &&
				la_insert_type_says_nothing(((Const *) node)->consttype);
		case T_Var:
			la_insert_note_type(context, ((Var *) node)->vartype);
			return is_unknown_column((Var *) node);
		case T_Param:
			la_insert_note_type(context, ((Param *) node)->paramtype);
			return ((Param *) node)->paramkind == PARAM_EXTERN &&
				la_insert_type_says_nothing(((Param *) node)->paramtype);
		case T_TargetEntry:
			return la_insert_walk((Node *) ((TargetEntry *) node)->expr, context);
		case T_CoerceToDomain:
			la_insert_note_type(context, ((CoerceToDomain *) node)->resulttype);
			check_stack_depth();
			return la_insert_walk((Node *) ((CoerceToDomain *) node)->arg, context);
		case T_Query:
			return query_tree_walker((Query *) node, la_insert_walk, context,
									 QTW_EXAMINE_SORTGROUP);
		default:
			return search_other(node, context);
	}
}

/*
 * The rest, kept out of the walker: that is called too often to save registers for this.
 */
static pg_noinline bool
search_other(Node *node, LaInsertSearch *search)
{
	return check_functions_in_node(node, IsA(node, CoerceViaIO) ?
								   converts_seeing_rows : sees_rows,
								   search) ||
		search_node(node, search) ||
		expression_tree_walker(node, la_insert_walk, search);
}

/*
 * What a record of the query's own is made of comes up in the query.  Catalogs have arrays
 * of any type: columns of statistics, and in their rows.
 */
static bool
is_unknown_column(const Var *column)
{
	Oid			type = column->vartype;

	if (type == RECORDOID || type == RECORDARRAYOID)
		return false;
	return la_insert_type_says_nothing(type) ||
		(column->varattno == InvalidAttrNumber && type < FirstUnpinnedObjectId);
}

/*
 * What a node calls besides the functions that check_functions_in_node() finds, and
 * the nodes below it.
 */
static bool
search_node(Node *node, LaInsertSearch *search)
{
	switch (nodeTag(node))
	{
		case T_SortGroupClause:
			/* ORDER BY, GROUP BY, DISTINCT and the like */
			return (OidIsValid(((SortGroupClause *) node)->eqop) &&
					la_insert_search_function(search, get_opcode(((SortGroupClause *) node)->eqop))) ||
				(OidIsValid(((SortGroupClause *) node)->sortop) &&
				 la_insert_search_function(search, get_opcode(((SortGroupClause *) node)->sortop)));
		case T_WindowClause:
			return la_insert_search_function(search, ((WindowClause *) node)->startInRangeFunc) ||
				la_insert_search_function(search, ((WindowClause *) node)->endInRangeFunc);
		case T_SetOperationStmt:
			return la_insert_walk((Node *) ((SetOperationStmt *) node)->groupClauses, search);
		case T_RangeTblFunction:
			return is_users_call(((RangeTblFunction *) node)->funcexpr) ||
				search_types(((RangeTblFunction *) node)->funccoltypes, search);
		case T_ScalarArrayOpExpr:
			return search_operator(((ScalarArrayOpExpr *) node)->opno, search);
		case T_TableFunc:
			return search_types(((TableFunc *) node)->coltypes, search);
		default:
			return search_value(node, search);
	}
}

/*
 * Of nodes that give a value, those whose type need not be the type of a node below or
 * part of it.
 */
static bool
search_value(Node *node, LaInsertSearch *search)
{
	switch (nodeTag(node))
	{
		case T_FuncExpr:
			if (gives_unknown(((FuncExpr *) node)->funcid,
							  ((FuncExpr *) node)->funcresulttype) ||
				leaves_out_arguments((FuncExpr *) node))
				return true;
			break;
		case T_WindowFunc:
		case T_Aggref:
			if (is_users_call(node))
				return true;
			break;
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			if (gives_unknown(((OpExpr *) node)->opno,
							  ((OpExpr *) node)->opresulttype) ||
				search_operator(((OpExpr *) node)->opno, search))
				return true;
			break;
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
		case T_ConvertRowtypeExpr:
		case T_RowExpr:
		case T_ArrayExpr:
		case T_JsonExpr:
		case T_JsonConstructorExpr:
			break;
		default:
			return false;
	}
	la_insert_note_type(search, exprType(node));
	return false;
}

/*
 * Does a function, or operator, that somebody made give a value of a type that does not
 * tell what it is made of?  What core's own make such values of comes up in the query.
 */
static bool
gives_unknown(Oid object, Oid type)
{
	return object >= FirstUnpinnedObjectId && la_insert_type_says_nothing(type);
}

/*
 * A call of a function that somebody made, where more may be behind it than its name says.  An
 * aggregate calls other functions.  Of one in FROM the planner may put the query in the place of
 * the call: relies on inline_set_returning_function() in clauses.c.
 */
static bool
is_users_call(const Node *node)
{
	Oid			function = InvalidOid;

	if (node != NULL && IsA(node, FuncExpr))
		function = ((const FuncExpr *) node)->funcid;
	else if (node != NULL && IsA(node, WindowFunc))
		function = ((const WindowFunc *) node)->winfnoid;
	else if (node != NULL && IsA(node, Aggref))
		function = ((const Aggref *) node)->aggfnoid;
	return function >= FirstUnpinnedObjectId;
}

/*
 * Arguments that a call of such a function leaves out: the planner puts their defaults in.
 */
static bool
leaves_out_arguments(const FuncExpr *call)
{
	HeapTuple	tuple;
	bool		result;

	if (call->funcid < FirstUnpinnedObjectId)
		return false;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(call->funcid));
	if (!HeapTupleIsValid(tuple))
		return true;
	result = list_length(call->args) <
		((Form_pg_proc) GETSTRUCT(tuple))->pronargs;
	ReleaseSysCache(tuple);
	return result;
}

/*
 * Operators that the planner may put in the place of one that somebody made: a > b for
 * b < a, and a <> b for NOT a = b.
 */
static bool
search_operator(Oid operator, LaInsertSearch *search)
{
	Oid			others[2];

	if (operator < FirstUnpinnedObjectId)
		return false;
	others[0] = get_commutator(operator);
	others[1] = get_negator(operator);
	for (int i = 0; i < lengthof(others); i++)
	{
		if (OidIsValid(others[i]) &&
			la_insert_search_function(search, get_opcode(others[i])))
			return true;
	}
	return false;
}

static bool
search_types(List *list, LaInsertSearch *search)
{
	bool		found = false;
	ListCell   *lc;

	foreach(lc, list)
	{
		la_insert_note_type(search, lfirst_oid(lc));
		found = found || la_insert_type_says_nothing(lfirst_oid(lc));
	}
	return found;
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
 * The same for a cast by way of text, whose types are looked at by themselves.
 */
static bool
converts_seeing_rows(Oid function, void *context)
{
	return la_insert_search_io_function(context, function);
}
