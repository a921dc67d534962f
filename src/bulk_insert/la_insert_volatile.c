/*-------------------------------------------------------------------------
 *
 * la_insert_volatile.c
 *	  whether an expression names a function that sees new rows
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
#include "catalog/pg_attribute.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "bulk_insert/la_insert_function.h"
#include "bulk_insert/la_insert_type.h"
#include "bulk_insert/la_insert_volatile.h"

static bool walker(Node *node, void *context);
static bool search_other(Node *node, LaInsertSearch *search);
static bool is_unknown_column(const Var *column);
static bool search_node(Node *node, LaInsertSearch *search);
static bool search_value(Node *node, LaInsertSearch *search);
static bool gives_unknown(Oid object, Oid type);
static bool search_from(const RangeTblFunction *from, LaInsertSearch *search);
static bool may_be_inlined(Node *call);
static bool search_operator(Oid operator, LaInsertSearch *search);
static bool search_sort(const SortGroupClause *sort, LaInsertSearch *search);
static bool search_window(const WindowClause *window, LaInsertSearch *search);
static bool search_types(List *list, LaInsertSearch *search);
static bool search_window_call(const WindowFunc *call, LaInsertSearch *search);
static bool search_call(const Node *call, Oid function, List *arguments,
						LaInsertSearch *search);
static bool tells_columns(HeapTuple function, LaInsertSearch *search);
static bool note_defaults(HeapTuple function, List *arguments,
						  LaInsertSearch *search);
static void note_default(LaInsertSearch *search, Oid function, int argument,
						 Node *value);
static bool search_aggregate(Oid aggregate, LaInsertSearch *search);
static bool sees_rows(Oid function, void *context);
static bool converts_seeing_rows(Oid function, void *context);

/*
 * Does evaluating this call a volatile function that could look at tables, but for what is
 * called because of a type?  Types that come up are noted.  Of a query, an expression, or
 * a list of expressions, and of those that the search has still to look at.
 */
bool
la_insert_walk(Node *expression, LaInsertSearch *search)
{
	bool		found = walker(expression, search);

	while (!found && search->expressions != NIL)
	{
		expression = llast(search->expressions);
		search->expressions = list_delete_last(search->expressions);
		found = walker(expression, search);
	}
	return found;
}

/*
 * query_tree_walker and expression_tree_walker callback.  Constants come first: a list of
 * VALUES has thousands.  Of what follows, some queries have hundreds, in as many columns.
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
			return walker((Node *) ((TargetEntry *) node)->expr, context);
		case T_CoerceToDomain:
			la_insert_note_type(context, ((CoerceToDomain *) node)->resulttype);
			check_stack_depth();
			return walker((Node *) ((CoerceToDomain *) node)->arg, context);
		case T_Query:
			return query_tree_walker((Query *) node, walker, context,
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
		expression_tree_walker(node, walker, search);
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
			return search_sort((SortGroupClause *) node, search);
		case T_WindowClause:
			return search_window((WindowClause *) node, search);
		case T_SetOperationStmt:
			return walker((Node *) ((SetOperationStmt *) node)->groupClauses, search);
		case T_RangeTblFunction:
			return search_from((RangeTblFunction *) node, search);
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
			if (search_call(node, ((FuncExpr *) node)->funcid,
							((FuncExpr *) node)->args, search))
				return true;
			break;
		case T_WindowFunc:
			if (search_window_call((WindowFunc *) node, search))
				return true;
			break;
		case T_Aggref:
			if (gives_unknown(((Aggref *) node)->aggfnoid,
							  ((Aggref *) node)->aggtype) ||
				search_aggregate(((Aggref *) node)->aggfnoid, search))
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
 * A call in FROM.  A list of columns tells what its records are made of.
 */
static bool
search_from(const RangeTblFunction *from, LaInsertSearch *search)
{
	if (from->funccoltypes != NIL)
		search->described = from->funcexpr;
	return may_be_inlined(from->funcexpr) ||
		search_types(from->funccoltypes, search);
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
 * A call of a window function, or of an aggregate as one.
 */
static bool
search_window_call(const WindowFunc *call, LaInsertSearch *search)
{
	return gives_unknown(call->winfnoid, call->wintype) ||
		search_call((const Node *) call, call->winfnoid, call->args, search) ||
		search_aggregate(call->winfnoid, search);
}

/*
 * What a call brings with it of a function that somebody made: arguments that are left
 * out, and the columns of its records.
 */
static bool
search_call(const Node *call, Oid function, List *arguments,
			LaInsertSearch *search)
{
	HeapTuple	tuple;
	const FormData_pg_proc *form;
	bool		found;

	if (function < FirstUnpinnedObjectId)
		return false;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (!HeapTupleIsValid(tuple))
		return true;
	form = (Form_pg_proc) GETSTRUCT(tuple);
	found = (list_length(arguments) < form->pronargs &&
			 !note_defaults(tuple, arguments, search)) ||
		(call != search->described && la_insert_type_says_nothing(exprType(call)) &&
		 !tells_columns(tuple, search));
	ReleaseSysCache(tuple);
	return found;
}

/*
 * Do the arguments of a function tell what its records are made of?
 */
static bool
tells_columns(HeapTuple function, LaInsertSearch *search)
{
	TupleDesc	columns = build_function_result_tupdesc_t(function);

	for (int i = 0; columns != NULL && i < columns->natts; i++)
	{
		Oid			type = TupleDescAttr(columns, i)->atttypid;

		if (la_insert_type_says_nothing(type))
			return false;
		la_insert_note_type(search, type);
	}
	return columns != NULL;
}

/*
 * Notes the defaults of arguments that a call leaves out, which the planner puts in.
 * False when there are too few.  Mirrors reorder_function_arguments() and
 * add_function_defaults() in clauses.c.
 */
static bool
note_defaults(HeapTuple function, List *arguments, LaInsertSearch *search)
{
	const FormData_pg_proc *form = (Form_pg_proc) GETSTRUCT(function);
	Bitmapset  *given = NULL;
	int			argument = 0;
	List	   *defaults;
	ListCell   *lc;
	bool		isnull;
	Datum		values = SysCacheGetAttr(PROCOID, function,
										 Anum_pg_proc_proargdefaults, &isnull);

	if (isnull)
		return false;
	foreach(lc, arguments)
	{
		const NamedArgExpr *named = lfirst(lc);

		given = bms_add_member(given, IsA(named, NamedArgExpr) ?
							   named->argnumber : argument++);
	}
	defaults = castNode(List, stringToNode(TextDatumGetCString(values)));
	argument = form->pronargs - list_length(defaults);
	foreach(lc, defaults)
	{
		if (!bms_is_member(argument, given))
			note_default(search, form->oid, argument, lfirst(lc));
		argument++;
	}
	return true;
}

/*
 * Notes a default, once: it may call the function again.
 */
static void
note_default(LaInsertSearch *search, Oid function, int argument, Node *value)
{
	ListCell   *of;
	ListCell   *number;

	forboth(of, search->default_functions, number, search->default_arguments)
	{
		if (lfirst_oid(of) == function && lfirst_int(number) == argument)
			return;
	}
	search->default_functions = lappend_oid(search->default_functions, function);
	search->default_arguments = lappend_int(search->default_arguments, argument);
	search->expressions = lappend(search->expressions, value);
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
