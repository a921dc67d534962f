/*-------------------------------------------------------------------------
 *
 * la_insert_search.c
 *	  a search for functions that see the rows of an insert
 *
 * Goes from an expression to the types that come up in it, and from
 * each type to those that it is made of (la_insert_type.c).  What has been looked at before
 * is not looked at again (la_insert_finding.c), but for expressions that are not stored.
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
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "bulk_insert/judge/la_insert_change.h"
#include "bulk_insert/judge/la_insert_function.h"
#include "bulk_insert/judge/la_insert_search.h"
#include "bulk_insert/judge/la_insert_type.h"

static bool search_noted_types(LaInsertSearch *search);
static bool search_subject(LaInsertSearch *search,
						   const LaInsertSubject *subject, const char *stored,
						   LaInsertLook look);
static bool find_out(LaInsertSearch *search, const LaInsertSubject *subject,
					 const char *stored, LaInsertLook look);
static bool add(LaInsertSearch *search, const LaInsertFinding *finding);
static bool walk(Node *node, void *context);
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
 * Can evaluating this call a volatile function that could look at tables?  Of a query,
 * an expression, or a list of expressions.  One that is evaluated late, when later rows
 * have been made (LaInsertSearch.late), must not call any volatile function: the current
 * value of a sequence and the next random number depend on that.  What has been looked
 * at is in the search afterwards.
 */
bool
la_insert_search(Node *expression, LaInsertSearch *search)
{
	return walk(expression, search) || search_noted_types(search);
}

/*
 * The same of an expression that is stored, as a text, with a table or trigger.
 */
bool
la_insert_search_stored(LaInsertSearch *search, LaInsertSubject subject,
						const char *stored)
{
	subject.late = search->late;
	return search_subject(search, &subject, stored, NULL) ||
		search_noted_types(search);
}

/*
 * The same of what a function looks at.
 */
bool
la_insert_search_by(LaInsertSearch *search, LaInsertSubject subject,
					LaInsertLook look)
{
	subject.late = search->late;
	return search_subject(search, &subject, NULL, look) ||
		search_noted_types(search);
}

/*
 * Can a function see the rows so far that core may call for a value of a type that has
 * been noted?  Types that come up are noted, too.
 */
static bool
search_noted_types(LaInsertSearch *search)
{
	while (search->types_searched < list_length(search->types))
	{
		Oid			type = list_nth_oid(search->types, search->types_searched++);
		LaInsertSubject subject = {
			.kind = LA_INSERT_TYPE,.object = type,.late = search->late
		};

		if (search_subject(search, &subject, NULL, la_insert_search_type))
			return true;
	}
	return false;
}

/*
 * Of an expression, which is given as it is stored, or of what a function looks at.  Before
 * findings are trusted, changes that others have made are heard of once, as they would be
 * when catalogs were read.
 */
static bool
search_subject(LaInsertSearch *search, const LaInsertSubject *subject,
			   const char *stored, LaInsertLook look)
{
	const LaInsertFinding *known;

	if (!search->has_caught_up)
		AcceptInvalidationMessages();
	search->has_caught_up = true;
	known = la_insert_recall(subject, stored);
	return known != NULL ? add(search, known) :
		find_out(search, subject, stored, look);
}

/*
 * Something that changes while catalogs are looked at may have been seen as it was, or as
 * it is: such a finding is not kept.
 */
static bool
find_out(LaInsertSearch *search, const LaInsertSubject *subject,
		 const char *stored, LaInsertLook look)
{
	LaInsertFinding finding = {.subject = *subject};
	LaInsertSearch inner = {.late = subject->late};
	uint64		changes = la_insert_changes();

	if (stored != NULL)
		finding.stored = pstrdup(stored);	/* looking at catalogs can free it */
	finding.sees_rows = look != NULL ? look(&inner, subject->object) :
		walk(stringToNode(finding.stored), &inner);
	finding.functions = inner.functions;
	finding.types = inner.types;
	finding.tables = inner.tables;
	if (changes == la_insert_changes())
		la_insert_remember(&finding);
	return add(search, &finding);
}

static bool
add(LaInsertSearch *search, const LaInsertFinding *finding)
{
	ListCell   *lc;

	if (finding->functions != NIL)
		search->functions = list_concat_unique_oid(search->functions,
												   finding->functions);
	if (finding->tables != NIL)
		search->tables = list_concat_unique_oid(search->tables, finding->tables);
	foreach(lc, finding->types)
		la_insert_note_type(search, lfirst_oid(lc));
	return finding->sees_rows;
}

/*
 * Does evaluating this call a volatile function that could look at tables, but for what is
 * called because of a type?  Types that come up are noted, in a LaInsertSearch.  Of a query, an expression, or
 * a list of expressions: query_tree_walker and expression_tree_walker callback.
 *
 * Constants come first: a list of VALUES has thousands.  Of what follows, some queries have hundreds, in as many columns.
 */
static bool
walk(Node *node, void *context)
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
			return walk((Node *) ((TargetEntry *) node)->expr, context);
		case T_CoerceToDomain:
			la_insert_note_type(context, ((CoerceToDomain *) node)->resulttype);
			check_stack_depth();
			return walk((Node *) ((CoerceToDomain *) node)->arg, context);
		case T_Query:
			return query_tree_walker((Query *) node, walk, context,
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
		expression_tree_walker(node, walk, search);
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
			return walk((Node *) ((SetOperationStmt *) node)->groupClauses, search);
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
