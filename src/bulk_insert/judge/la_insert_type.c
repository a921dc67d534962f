/*-------------------------------------------------------------------------
 *
 * la_insert_type.c
 *	  could a function that belongs to a type see the rows of an insert?
 *
 * Functions of core get the type of a value to know what to call: comparisons of arrays and rows,
 * output functions, functions that make JSON.  So what belongs to each type of a user that comes
 * up is looked at, and what belongs to its parts.  Domains, whose CHECK can call anything, and
 * ranges are in doubt.
 *
 * Catalogs are read and nothing else is done.  The type cache would plan the constraints of
 * domains, which calls functions, and lock the tables of row types.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_language_d.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "utils/fmgroids.h"
#include "utils/syscache.h"

#include "bulk_insert/judge/la_insert_type.h"
#include "la_plain.h"

static bool
add_part(LaInsertSearch *search, Oid type)
{
	if (type >= FirstUnpinnedObjectId)
		search->types = list_append_unique_oid(search->types, type);
	return la_insert_type_says_nothing(type);
}

/*
 * The columns of a row type.  The table that it is of is not opened: it would be locked.
 */
static bool
add_columns(LaInsertSearch *search, Oid table)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
	int			columns;
	bool		found = false;

	if (!HeapTupleIsValid(tuple))
		return true;
	columns = ((Form_pg_class) GETSTRUCT(tuple))->relnatts;
	ReleaseSysCache(tuple);
	for (int i = 1; i <= columns && !found; i++)
	{
		Form_pg_attribute column;

		tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(table), Int16GetDatum(i));
		if (!HeapTupleIsValid(tuple))
			return true;
		column = (Form_pg_attribute) GETSTRUCT(tuple);
		found = !column->attisdropped && add_part(search, column->atttypid);
		ReleaseSysCache(tuple);
	}
	return found;
}

/*
 * Functions of core's own that read and write values call nothing but what belongs to the
 * parts of the type.  Stable ones in C are taken by their word, and copies of core's: citext
 * has such.
 */
static bool
reads_seeing_rows(LaInsertSearch *search, Oid function)
{
	Oid			language;

	if (function < FirstUnpinnedObjectId)
		return false;
	language = la_insert_language(function, PROVOLATILE_STABLE);
	if (language != ClanguageId && language != INTERNALlanguageId)
		return la_insert_search_function(search, function);
	search->functions = list_append_unique_oid(search->functions, function);
	return false;
}

/*
 * Looks at a type, and adds those that it is made of.  One that is not there, or not defined
 * yet, is in doubt.  Functions that make JSON of values look for a cast: relies on
 * json_categorize_type() in jsonfuncs.c, which looks for no other, and for none of arrays
 * and rows.  Relies on find_coercion_pathway() in parse_coerce.c.
 */
static bool
has_doubt(LaInsertSearch *search, Oid type)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	FormData_pg_type form;

	if (!HeapTupleIsValid(tuple))
		return true;
	memcpy(&form, GETSTRUCT(tuple), sizeof(form));
	ReleaseSysCache(tuple);
	if (!form.typisdefined ||
		(form.typtype != TYPTYPE_BASE && form.typtype != TYPTYPE_ENUM &&
		 form.typtype != TYPTYPE_COMPOSITE) ||
		reads_seeing_rows(search, form.typinput) || reads_seeing_rows(search, form.typoutput) ||
		reads_seeing_rows(search, form.typreceive) || reads_seeing_rows(search, form.typsend))
		return true;
	if (form.typtype == TYPTYPE_COMPOSITE)
		return add_columns(search, form.typrelid);
	return add_part(search, form.typelem) ||
		(!IsTrueArrayType(&form) &&
		 la_insert_search_function(search, la_plain_cast(type, JSONOID)));
}

/*
 * LaInsertLook: at a type, and at all that it is made of.  Those of core have functions of core
 * called, and so have enums.
 */
static int
look_at_type(void *arg)
{
	LaInsertSearch search = {.deferred = true,.types = list_make1_oid(*(Oid *) arg)};

	for (int i = 0; i < list_length(search.types); i++)
	{
		if (has_doubt(&search, list_nth_oid(search.types, i)))
			return LA_CALLS_SEEING;
	}
	return la_insert_search_result(&search);
}

/*
 * For la_insert_search_type().
 */
bool
la_insert_search_users_type(LaInsertSearch *search, Oid type)
{
	LaInsertCalls calls;

	if (list_member_oid(search->types, type))
		return false;
	search->types = lappend_oid(search->types, type);
	calls = la_insert_known(LA_INSERT_TYPE, type, look_at_type, &type);
	search->users |= calls != LA_CALLS_CORE;
	return calls == LA_CALLS_SEEING;
}

bool
la_insert_search_types(const List *types, LaInsertSearch *search)
{
	ListCell   *lc;

	foreach(lc, types)
	{
		if (la_insert_search_type(search, lfirst_oid(lc)) ||
			la_insert_type_says_nothing(lfirst_oid(lc)))
			return true;
	}
	return false;
}
