/*-------------------------------------------------------------------------
 *
 * la_insert_function.c
 *	  could a function see the rows of an insert?
 *
 * Only a volatile function takes a new snapshot, and so sees the rows that its statement has
 * inserted so far.  One that is not volatile, but calls others that are, is taken by its word,
 * as the planner takes it.  Volatile functions of core that look at no table are let pass:
 * numbers of sequences, random numbers and the time are what many rows are made of.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type_d.h"
#include "utils/fmgroids.h"
#include "utils/syscache.h"

#include "bulk_insert/judge/la_insert_function.h"
#include "la_plain.h"

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

static bool
is_blind(Oid function)
{
	for (int i = 0; i < lengthof(blind_functions); i++)
	{
		if (blind_functions[i] == function)
			return true;
	}
	return false;
}

/*
 * Does it tell how a value is stored?  A row of a batch is not formed yet when its constraints
 * are checked, and toasted already when conditions of triggers are.
 */
static bool
tells_of_storage(Oid function)
{
	return function == F_PG_COLUMN_SIZE || function == F_PG_COLUMN_COMPRESSION ||
		function == F_PG_COLUMN_TOAST_CHUNK_ID;
}

/*
 * Is a function volatile, or may it call one that is?  A stable function of a user may, in C,
 * too, if it runs a text as a query; and that may be one that inserts into the table.
 * One that is not there is in doubt.
 */
bool
la_insert_function_is_volatile(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	char		kind;

	if (!HeapTupleIsValid(tuple))
		return true;
	kind = ((Form_pg_proc) GETSTRUCT(tuple))->provolatile;
	ReleaseSysCache(tuple);
	return kind == PROVOLATILE_VOLATILE ||
		(kind == PROVOLATILE_STABLE && function >= FirstUnpinnedObjectId);
}

/*
 * The language of a function that is of this volatility; InvalidOid of any other.
 */
Oid
la_insert_language(Oid function, char volatility)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc form;
	Oid			language = InvalidOid;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	form = (Form_pg_proc) GETSTRUCT(tuple);
	if (form->provolatile == volatility)
		language = form->prolang;
	ReleaseSysCache(tuple);
	return language;
}

static bool
takes_internal(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	const oidvector *types;
	bool		found = false;

	if (!HeapTupleIsValid(tuple))
		return false;
	types = &((Form_pg_proc) GETSTRUCT(tuple))->proargtypes;
	for (int i = 0; i < types->dim1; i++)
		found |= types->values[i] == INTERNALOID;
	ReleaseSysCache(tuple);
	return found;
}

/*
 * Does a function of an operator class do nothing but serve the access method that has this
 * handler?  One that takes what SQL has not (internal) is written in C.  Being volatile gives it
 * no snapshot; access methods other than btree and hash have most of theirs declared so by
 * negligence.
 */
bool
la_insert_function_serves(Oid function, Oid handler)
{
	return handler != F_BTHANDLER && handler != F_HASHHANDLER && takes_internal(function);
}

/*
 * Is this function volatile, and could look at tables, or is it volatile at all where that
 * counts, or does it call what a value names, or tell how a value of the row is stored?
 * InvalidOid is none.  A list of VALUES calls the same function again and again.
 */
bool
la_insert_search_function(LaInsertSearch *search, Oid function)
{
	if (!OidIsValid(function) || function == search->harmless)
		return false;
	search->harmless = function;
	if (function >= FirstUnpinnedObjectId)
		search->functions = list_append_unique_oid(search->functions, function);
	else if (la_plain_calls_by_name(function, NULL) ||
			 (search->of_row && tells_of_storage(function)))
		return true;
	return la_insert_function_is_volatile(function) &&
		(search->deferred || !is_blind(function));
}
