/*-------------------------------------------------------------------------
 *
 * la_interval_state.c
 *	  what the last maintenance of a table found, and which tables are due
 *
 * A policy that was set has a state from the first, and is due at once.  One that came with a
 * dump has none: it waits for somebody to call maintenance, since what is old by the clock may
 * be what the dump was restored for.  So does one in a copy of a database: a state of another
 * database is none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "intervals/la_interval_query.h"
#include "intervals/la_interval_state.h"

static TimestampTz
get_time(HeapTuple row, TupleDesc columns, int number)
{
	bool		is_null;
	Datum		value = heap_getattr(row, number, columns, &is_null);

	return is_null ? 0 : DatumGetTimestampTz(value);
}

static void
receive_state(HeapTuple row, TupleDesc columns, void *arg)
{
	LaIntervalState *state = arg;
	bool		is_null;

	state->last_run = get_time(row, columns, 1);
	state->next_run = get_time(row, columns, 2);
	state->last_analyze = get_time(row, columns, 3);
	state->attempts = DatumGetInt32(heap_getattr(row, 4, columns, &is_null));
	state->detaching = DatumGetObjectId(heap_getattr(row, 5, columns, &is_null));
	if (is_null)
		state->detaching = InvalidOid;
	state->mark = DatumGetTransactionId(heap_getattr(row, 6, columns, &is_null));
}

static void
add_database(LaIntervalParameters *parameters)
{
	la_interval_query_add(parameters, OIDOID, ObjectIdGetDatum(MyDatabaseId), false);
}

/*
 * What later attempts need of the state: times, the number of failures, what was begun.
 */
LaIntervalState *
la_interval_state_read(Oid parent)
{
	LaIntervalParameters parameters = la_interval_query_begin(parent);
	LaIntervalState *state = palloc0_object(LaIntervalState);

	add_database(&parameters);
	la_interval_query_execute("SELECT last_run, next_run, last_analyze, attempts, detaching, mark FROM {state} "
							  "WHERE parent = $1 AND row_type = $2 AND database = $3",
							  &parameters, receive_state, state);
	return state;
}

/*
 * An empty state, in a table that has none.
 */
void
la_interval_state_begin(Oid parent)
{
	LaIntervalParameters parameters = la_interval_query_begin(parent);

	add_database(&parameters);
	la_interval_query_execute("INSERT INTO {state} (parent, row_type, database, attempts) VALUES ($1, $2, $3, 0) "
							  "ON CONFLICT (parent) DO NOTHING",
							  &parameters, NULL, NULL);
}

/*
 * Removes a state of another table that had this OID, or of another database.
 */
void
la_interval_state_remove_stale(Oid parent)
{
	LaIntervalParameters parameters = la_interval_query_begin(parent);

	add_database(&parameters);
	la_interval_query_execute("DELETE FROM {state} WHERE parent = $1 AND (row_type <> $2 OR database <> $3)",
							  &parameters, NULL, NULL);
}

static void
add_time(LaIntervalParameters *parameters, TimestampTz time)
{
	la_interval_query_add(parameters, TIMESTAMPTZOID, TimestampTzGetDatum(time),
						  time == 0);
}

/*
 * Writes the state of a table that still has this version of its policy, or, where that is
 * NULL, any policy.
 */
void
la_interval_state_write(Oid parent, const char *version,
						const LaIntervalState *state)
{
	LaIntervalParameters parameters = {0};
	bool		failed = state->error != NULL;

	la_interval_query_add(&parameters, OIDOID, ObjectIdGetDatum(parent), false);
	add_time(&parameters, state->last_run);
	add_time(&parameters, state->next_run);
	add_time(&parameters, state->last_analyze);
	la_interval_query_add(&parameters, INT4OID, Int32GetDatum(state->attempts),
						  false);
	la_interval_query_add_text(&parameters, state->error);
	la_interval_query_add_text(&parameters, failed ?
							   unpack_sql_state(state->sqlstate) : NULL);
	la_interval_query_add_text(&parameters, state->blocked);
	la_interval_query_add(&parameters, OIDOID,
						  ObjectIdGetDatum(state->detaching),
						  !OidIsValid(state->detaching));
	la_interval_query_add(&parameters, XIDOID,
						  TransactionIdGetDatum(state->mark),
						  !OidIsValid(state->detaching));
	la_interval_query_add_text(&parameters, version);
	add_database(&parameters);
	la_interval_query_execute("INSERT INTO {state} (parent, row_type, last_run, next_run, last_analyze, "
							  "attempts, last_error, last_sqlstate, blocked, detaching, mark, database) "
							  "SELECT parent, row_type, $2, $3, $4, $5, $6, $7, $8, $9, $10, $12 FROM {policy} "
							  "WHERE parent = $1 AND ($11 IS NULL OR " LA_INTERVAL_VERSION " = $11) FOR SHARE "
							  "ON CONFLICT (parent) DO UPDATE SET row_type = excluded.row_type, "
							  "last_run = excluded.last_run, next_run = excluded.next_run, "
							  "last_analyze = excluded.last_analyze, attempts = excluded.attempts, "
							  "last_error = excluded.last_error, last_sqlstate = excluded.last_sqlstate, "
							  "blocked = excluded.blocked, detaching = excluded.detaching, "
							  "mark = excluded.mark, database = excluded.database",
							  &parameters, NULL, NULL);
}

/*
 * OIDs of the tables whose maintenance is due, the longest due first; among them those that
 * were dropped, of which la_interval_maintain() forgets the policy.  What is due later than any
 * run ever says is so by a clock that has gone back.  In a transaction, with an active
 * snapshot.
 */
List *
la_interval_due(TimestampTz now)
{
	LaIntervalParameters parameters = {0};

	la_interval_query_add(&parameters, TIMESTAMPTZOID,
						  TimestampTzGetDatum(now), false);
	la_interval_query_add(&parameters, TIMESTAMPTZOID,
						  TimestampTzGetDatum(now + 2 * LA_INTERVAL_MOST_WAIT), false);
	add_database(&parameters);
	return la_interval_query_list("SELECT p.parent FROM {policy} p "
								  "JOIN {state} s ON s.parent = p.parent AND s.row_type = p.row_type "
								  "AND s.database = $3 "
								  "WHERE s.next_run IS NULL OR s.next_run <= $1 OR s.next_run > $2 "
								  "ORDER BY s.next_run NULLS FIRST, p.parent",
								  &parameters);
}
