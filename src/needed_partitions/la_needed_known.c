/*-------------------------------------------------------------------------
 *
 * la_needed_known.c
 *	  which tables are known to have an interval policy
 *
 * A statement must not look into the table of policies each time it begins.  So a session remembers
 * the answer until core tells that the table has changed: setting a policy tells that, too
 * (la_intervals.c), and so does each new partition.  A policy that was taken away may be remembered; then
 * the worker finds none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/snapmgr.h"

#include "intervals/la_interval_policy.h"
#include "intervals/la_interval_table.h"
#include "needed_partitions/la_needed_known.h"

/* Tables that are remembered at first, and at most: arbitrary. */
#define FIRST_TABLES 16
#define MOST_TABLES 4096

typedef struct LaKnownTable
{
	Oid			table;
	bool		has_policy;
} LaKnownTable;

static HTAB *tables = NULL;
static uint64 changes = 0;

static void listen(void);
static void forget(Datum argument, Oid table);
static bool look(Oid table);

/*
 * Whether a table has a policy.  With an active snapshot.
 */
bool
la_needed_known(Oid table)
{
	LaKnownTable *known;
	uint64		before;
	bool		has_policy;

	if (tables == NULL)
		listen();
	known = hash_search(tables, &table, HASH_FIND, NULL);
	if (likely(known != NULL))
		return known->has_policy;
	before = changes;
	has_policy = look(table);
	/* What has changed meanwhile may have been overlooked. */
	if (changes == before)
	{
		if (hash_get_num_entries(tables) >= MOST_TABLES)
			forget((Datum) 0, InvalidOid);
		known = hash_search(tables, &table, HASH_ENTER, NULL);
		known->has_policy = has_policy;
	}
	return has_policy;
}

static void
listen(void)
{
	HASHCTL		control = {
		.keysize = sizeof(Oid),.entrysize = sizeof(LaKnownTable)
	};

	tables = hash_create("pg_lookahead tables with a policy", FIRST_TABLES,
						 &control, HASH_ELEM | HASH_BLOBS);
	CacheRegisterRelcacheCallback(forget, (Datum) 0);
}

/*
 * RelcacheCallbackFunction: a table has changed, or any may have.
 */
static void
forget(Datum argument, Oid table)
{
	HASH_SEQ_STATUS scan;
	LaKnownTable *known;

	changes++;
	if (OidIsValid(table))
	{
		(void) hash_search(tables, &table, HASH_REMOVE, NULL);
		return;
	}
	hash_seq_init(&scan, tables);
	while ((known = hash_seq_search(&scan)) != NULL)
		(void) hash_search(tables, &known->table, HASH_REMOVE, NULL);
}

/*
 * With a snapshot of now: that of the statement may be older than what core has told already.
 */
static bool
look(Oid table)
{
	bool		has_policy;

	if (!la_interval_table_exists())
		return false;
	PushActiveSnapshot(GetLatestSnapshot());
	has_policy = la_interval_policy_exists(table);
	PopActiveSnapshot();
	return has_policy;
}
