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
 * Reads PartitionKeyData of partcache.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "la_compat.h"
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

/* The one that was asked for last, or NULL: mostly it is asked for again. */
static LaKnownTable *last = NULL;

static LaKnownTable *find(Oid table);
static void forget(Datum argument, Oid table);
static bool look(Relation relation);
static bool is_suitable(Relation table);

/*
 * Whether a partitioned table has a policy.  With an active snapshot.
 */
bool
la_needed_known(Relation relation)
{
	Oid			table = RelationGetRelid(relation);
	LaKnownTable *known = find(table);
	uint64		before;
	bool		has_policy;

	if (likely(known != NULL))
		return known->has_policy;
	before = changes;
	has_policy = look(relation);
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

static LaKnownTable *
find(Oid table)
{
	HASHCTL		control = {
		.keysize = sizeof(Oid),.entrysize = sizeof(LaKnownTable)
	};


	if (likely(last != NULL && last->table == table))
		return last;
	if (tables == NULL)
	{
		tables = hash_create("pg_lookahead tables with a policy", FIRST_TABLES,
							 &control, HASH_ELEM | HASH_BLOBS);
		CacheRegisterRelcacheCallback(forget, (Datum) 0);
	}

	last = hash_search(tables, &table, HASH_FIND, NULL);
	return last;
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
	last = NULL;
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
look(Relation relation)
{
	bool		has_policy;

	if (!is_suitable(relation) || !la_interval_table_exists())
		return false;
	PushActiveSnapshot(GetLatestSnapshot());
	has_policy = la_interval_policy_exists(RelationGetRelid(relation));
	PopActiveSnapshot();
	return has_policy;
}

/*
 * Whether the table is of a kind that can have a policy (la_interval_grid_open()), and is not a
 * partition: its rows would have to fit into that first.
 */
static bool
is_suitable(Relation table)
{
#ifdef LA_PARTITIONS_PORTED
	PartitionKey key = RelationGetPartitionKey(table);

	return !table->rd_rel->relispartition &&
		key->strategy == PARTITION_STRATEGY_RANGE && key->partnatts == 1;
#else
	return false;
#endif
}
