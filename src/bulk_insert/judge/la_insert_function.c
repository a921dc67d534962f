/*-------------------------------------------------------------------------
 *
 * la_insert_function.c
 *	  which functions see the rows that a statement has inserted so far
 *
 * Only a volatile function takes a new snapshot.  A function that is not, but calls
 * others that are, is taken by its word, as the planner takes it.  Volatile functions
 * of core that look at no table are let pass: numbers of sequences, random numbers
 * and the time are what many rows are made of.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "utils/fmgroids.h"
#include "utils/syscache.h"

#include "bulk_insert/judge/la_insert_function.h"

/*
 * Volatile functions of core whose result does not depend on any table, and on whose
 * effects no row that waits depends.
 */
static const Oid blind_functions[] = {
	F_NEXTVAL, F_CURRVAL, F_LASTVAL, F_SETVAL_REGCLASS_INT8,
	F_SETVAL_REGCLASS_INT8_BOOL,
	F_RANDOM_, F_RANDOM_INT4_INT4, F_RANDOM_INT8_INT8, F_RANDOM_NUMERIC_NUMERIC,
	F_RANDOM_NORMAL, F_SETSEED, F_ARRAY_SHUFFLE, F_ARRAY_SAMPLE,
	F_GEN_RANDOM_UUID, F_UUIDV4, F_UUIDV7_, F_UUIDV7_INTERVAL,
	F_CLOCK_TIMESTAMP, F_TIMEOFDAY,
	F_PG_SLEEP, F_PG_SLEEP_FOR, F_PG_SLEEP_UNTIL,
	F_PG_NOTIFY, F_CURRENT_QUERY,
};

/*
 * Stable functions of core that call what a value names, a type's input function or
 * the functions of a view: no search of the query can tell.
 */
static const Oid naming_functions[] = {
	F_PG_INPUT_IS_VALID, F_PG_INPUT_ERROR_INFO,
	F_ARRAY_IN, F_DOMAIN_IN, F_MULTIRANGE_IN, F_RANGE_IN, F_RECORD_IN,
	F_TABLE_TO_XML, F_TABLE_TO_XML_AND_XMLSCHEMA,
	F_SCHEMA_TO_XML, F_SCHEMA_TO_XML_AND_XMLSCHEMA,
	F_DATABASE_TO_XML, F_DATABASE_TO_XML_AND_XMLSCHEMA,
};

static bool is_volatile(Oid function);
static bool contains(const Oid *functions, int count, Oid function);

/*
 * Is this function volatile, and could look at tables, or is it volatile at all where
 * that counts, or does it call what a value names?  InvalidOid is none.  A list of VALUES calls the same function again and
 * again.
 */
bool
la_insert_search_function(LaInsertSearch *search, Oid function)
{
	if (!OidIsValid(function) || function == search->harmless)
		return false;
	search->harmless = function;
	if (function >= FirstUnpinnedObjectId)
		search->functions = list_append_unique_oid(search->functions, function);
	if (function < FirstUnpinnedObjectId &&
		contains(naming_functions, lengthof(naming_functions), function))
		return true;
	return is_volatile(function) &&
		(search->late ||
		 !contains(blind_functions, lengthof(blind_functions), function));
}

/*
 * The same of a function that reads or writes values of a type that is looked at.  Those
 * of core call nothing but what belongs to the parts of the type.
 */
bool
la_insert_search_io_function(LaInsertSearch *search, Oid function)
{
	return function >= FirstUnpinnedObjectId &&
		la_insert_search_function(search, function);
}

/*
 * Is a function volatile, or may it call one that is?  A stable function that somebody
 * made may, in C, too, if it runs a text as a query; and that may be one that inserts into
 * the table.
 * One that is not there is in doubt.
 */
static bool
is_volatile(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc form;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return true;
	form = (Form_pg_proc) GETSTRUCT(tuple);
	result = form->provolatile == PROVOLATILE_VOLATILE ||
		(form->provolatile == PROVOLATILE_STABLE &&
		 function >= FirstUnpinnedObjectId);
	ReleaseSysCache(tuple);
	return result;
}

static bool
contains(const Oid *functions, int count, Oid function)
{
	for (int i = 0; i < count; i++)
	{
		if (functions[i] == function)
			return true;
	}
	return false;
}
