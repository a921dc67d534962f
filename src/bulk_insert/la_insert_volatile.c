/*-------------------------------------------------------------------------
 *
 * la_insert_volatile.c
 *	  whether evaluating something can call a function that sees new rows
 *
 * Mirrors contain_volatile_functions() in clauses.c, which finds the functions that a
 * query names.  Others are called without being named: by domains, by functions that get the type of
 * a value to know what to call, by aggregates, by arguments that are left out.  To find
 * all of them, every type that comes up in the query is looked at: a value that is made
 * or looked into by some function has its type in the arguments or the result.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "bulk_insert/la_insert_function.h"
#include "bulk_insert/la_insert_type.h"
#include "bulk_insert/la_insert_volatile.h"

static bool walker(Node *node, void *context);
static bool search_node(Node *node, LaInsertSearch *search);
static bool search_value(Node *node, LaInsertSearch *search);
static bool may_be_inlined(Node *call);
static bool search_operator(Oid operator, LaInsertSearch *search);
static bool search_sort(const SortGroupClause *sort, LaInsertSearch *search);
static bool search_window(const WindowClause *window, LaInsertSearch *search);
static void note_types(List *list, LaInsertSearch *search);
static bool search_call(Oid function, List *arguments,
						LaInsertSearch *search);
static bool search_made_function(Oid function, int arguments,
								 LaInsertSearch *search);
static bool search_signature(HeapTuple tuple, int arguments,
							 LaInsertSearch *search);
static bool search_defaults(HeapTuple tuple, LaInsertSearch *search);
static bool search_aggregate(Oid aggregate, LaInsertSearch *search);
static bool sees_rows(Oid function, void *context);
static bool converts_seeing_rows(Oid function, void *context);

/*
 * Can evaluating this call a volatile function that could look at tables?  Of a query,
 * an expression, or a list of expressions.  One that is evaluated late, when later rows
 * have been made (LaInsertSearch.late), must not call any volatile function: the current
 * value of a sequence and the next random number depend on that.  What has been looked
 * at is in the search afterwards.
 */
bool
la_insert_search(Node *expression, LaInsertSearch *search)
{
	bool		found = walker(expression, search) ||
		la_insert_search_noted_types(search);

	while (!found && search->expressions != NIL)
	{
		expression = llast(search->expressions);
		search->expressions = list_delete_last(search->expressions);
		found = walker(expression, search) || la_insert_search_noted_types(search);
	}
	return found;
}

/*
 * query_tree_walker and expression_tree_walker callback.  Constants come first: a list of
 * VALUES has thousands.
 */
static bool
walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Const:
			la_insert_note_type(context, ((Const *) node)->consttype);
			return false;
		case T_Var:
			la_insert_note_type(context, ((Var *) node)->vartype);
			return false;
		case T_Param:
			la_insert_note_type(context, ((Param *) node)->paramtype);
			return false;
		case T_Query:
			return query_tree_walker((Query *) node, walker, context,
									 QTW_EXAMINE_SORTGROUP);
		default:
			return check_functions_in_node(node, IsA(node, CoerceViaIO) ?
										   converts_seeing_rows : sees_rows,
										   context) ||
				search_node(node, context) ||
				expression_tree_walker(node, walker, context);
	}
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
			return search_sort((SortGroupClause *) node, search);
		case T_WindowClause:
			return search_window((WindowClause *) node, search);
		case T_SetOperationStmt:
			return walker((Node *) ((SetOperationStmt *) node)->groupClauses, search);
		case T_RangeTblFunction:
			note_types(((RangeTblFunction *) node)->funccoltypes, search);
			return may_be_inlined(((RangeTblFunction *) node)->funcexpr);
		case T_ScalarArrayOpExpr:
			return search_operator(((ScalarArrayOpExpr *) node)->opno, search);
		case T_TableFunc:
			note_types(((TableFunc *) node)->coltypes, search);
			return false;
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
			if (search_call(((FuncExpr *) node)->funcid,
							((FuncExpr *) node)->args, search))
				return true;
			break;
		case T_WindowFunc:
			if (search_call(((WindowFunc *) node)->winfnoid,
							((WindowFunc *) node)->args, search) ||
				search_aggregate(((WindowFunc *) node)->winfnoid, search))
				return true;
			break;
		case T_Aggref:
			if (search_aggregate(((Aggref *) node)->aggfnoid, search))
				return true;
			break;
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			if (search_operator(((OpExpr *) node)->opno, search))
				return true;
			break;
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
		case T_ConvertRowtypeExpr:
		case T_RowExpr:
		case T_ArrayExpr:
		case T_CoerceToDomain:
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
 * A call in FROM of a function in SQL that somebody made: the planner puts its query in the
 * place of the call, whatever functions that names.  Relies on
 * inline_set_returning_function() in clauses.c.
 */
static bool
may_be_inlined(Node *call)
{
	Oid			function = InvalidOid;
	HeapTuple	tuple;
	bool		is_sql;

	if (call != NULL && IsA(call, FuncExpr))
		function = ((FuncExpr *) call)->funcid;
	if (function < FirstUnpinnedObjectId)
		return false;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (!HeapTupleIsValid(tuple))
		return true;
	is_sql = ((Form_pg_proc) GETSTRUCT(tuple))->prolang == SQLlanguageId;
	ReleaseSysCache(tuple);
	return is_sql;
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

/*
 * Operators of ORDER BY, GROUP BY, DISTINCT and the like.
 */
static bool
search_sort(const SortGroupClause *sort, LaInsertSearch *search)
{
	return (OidIsValid(sort->eqop) &&
			la_insert_search_function(search, get_opcode(sort->eqop))) ||
		(OidIsValid(sort->sortop) &&
		 la_insert_search_function(search, get_opcode(sort->sortop)));
}

static bool
search_window(const WindowClause *window, LaInsertSearch *search)
{
	return la_insert_search_function(search, window->startInRangeFunc) ||
		la_insert_search_function(search, window->endInRangeFunc);
}

static void
note_types(List *list, LaInsertSearch *search)
{
	ListCell   *lc;

	foreach(lc, list)
		la_insert_note_type(search, lfirst_oid(lc));
}

/*
 * What a call of a function brings with it.
 */
static bool
search_call(Oid function, List *arguments, LaInsertSearch *search)
{
	if (function < FirstUnpinnedObjectId)
		return false;
	return search_made_function(function, list_length(arguments), search);
}

static bool
search_made_function(Oid function, int arguments, LaInsertSearch *search)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool		found;

	if (!HeapTupleIsValid(tuple))
		return true;
	found = search_signature(tuple, arguments, search);
	ReleaseSysCache(tuple);
	return found;
}

/*
 * Arguments that are left out, and the types of the columns of a row that has no type
 * of its own.
 */
static bool
search_signature(HeapTuple tuple, int arguments, LaInsertSearch *search)
{
	const FormData_pg_proc *function = (Form_pg_proc) GETSTRUCT(tuple);
	Oid		   *columns;
	char	  **names;
	char	   *modes;
	int			count = 0;

	if (arguments < function->pronargs && search_defaults(tuple, search))
		return true;
	if (function->prorettype == RECORDOID)
		count = get_func_arg_info(tuple, &columns, &names, &modes);
	for (int i = 0; i < count; i++)
		la_insert_note_type(search, columns[i]);
	return false;
}

/*
 * The defaults of arguments, which the planner puts into a call that leaves them out.
 */
static bool
search_defaults(HeapTuple tuple, LaInsertSearch *search)
{
	bool		isnull;
	Datum		defaults = SysCacheGetAttr(PROCOID, tuple,
										   Anum_pg_proc_proargdefaults, &isnull);

	return isnull ||
		walker(stringToNode(TextDatumGetCString(defaults)), search);
}

/*
 * The functions that an aggregate is made of.  It is immutable itself, whatever they
 * are.
 */
static bool
search_aggregate(Oid aggregate, LaInsertSearch *search)
{
	HeapTuple	tuple;
	FormData_pg_aggregate form;

	if (aggregate < FirstUnpinnedObjectId)
		return false;
	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));
	if (!HeapTupleIsValid(tuple))
		return false;			/* a window function */
	form = *(Form_pg_aggregate) GETSTRUCT(tuple);
	ReleaseSysCache(tuple);
	la_insert_note_type(search, form.aggtranstype);
	la_insert_note_type(search, form.aggmtranstype);
	return la_insert_search_function(search, form.aggtransfn) ||
		la_insert_search_function(search, form.aggfinalfn) ||
		la_insert_search_function(search, form.aggcombinefn) ||
		la_insert_search_function(search, form.aggserialfn) ||
		la_insert_search_function(search, form.aggdeserialfn) ||
		la_insert_search_function(search, form.aggmtransfn) ||
		la_insert_search_function(search, form.aggminvtransfn) ||
		la_insert_search_function(search, form.aggmfinalfn);
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
