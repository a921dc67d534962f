/*-------------------------------------------------------------------------
 *
 * la_needed_watch.c
 *	  which statements are looked at: by the setting, and by the tables that have a policy
 *
 * A setting and no column of the policy says whether: if a slip in a row may make a partition is a
 * question of who writes, a bulk load or an application, not of the table.
 *
 * A statement must not look into the table of policies each time it begins.  So a session
 * remembers the answer until core tells that the table has changed: setting a policy tells
 * that, too (la_intervals.c), and so does each new partition.  A policy that was taken away may
 * be remembered; then the worker finds none.
 *
 * Reads ModifyTableState and ResultRelInfo of execnodes.h, and PartitionKeyData of partcache.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "intervals/la_interval_policy.h"
#include "intervals/la_interval_query.h"
#include "la_compat.h"
#include "la_guc.h"
#include "la_table_listener.h"
#include "needed_partitions/la_needed_projection.h"
#include "needed_partitions/la_needed_watch.h"

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

static bool enable_interval_creation = false;

const LaSetting la_needed_settings[] = {
	{
		.name = "pg_lookahead.enable_interval_creation",
		.summary = "Enables creating a partition that a row needs, where the table has an interval policy.",
		.flag = &enable_interval_creation,
		.context = PGC_USERSET,
		.flags = GUC_EXPLAIN,
	},
	{0}
};

/*
 * A query starts that changes rows, and has its plan nodes.
 */
void
la_needed_start(QueryDesc *query, int eflags)
{
	if (!enable_interval_creation || (eflags & EXEC_FLAG_EXPLAIN_ONLY))
		return;
	if (IsA(query->planstate, ModifyTableState))
		(void) la_needed_watch((ModifyTableState *) query->planstate);
	foreach_ptr(ModifyTableState, node, query->estate->es_auxmodifytables)
	{
		if (&node->ps != query->planstate)
			(void) la_needed_watch(node);
	}
}

/*
 * Whether rows of this node can be routed anew: where rows move, partitions that a new routing
 * has in common with the node would begin twice.
 */
static bool
can_route_anew(const ModifyTableState *node)
{
	if (node->operation == CMD_INSERT)
		return true;
	for (int i = 0; i < node->mt_nrels; i++)
	{
		if (node->resultRelInfo[i].ri_FdwRoutine != NULL)
			return false;
	}
	return true;
}

/*
 * LaTableListener.
 */
static void
forget_known(Oid table)
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

static LaKnownTable *
find_known(Oid table)
{
	static LaTableListener listener = {.hear = forget_known};
	HASHCTL		control = {
		.keysize = sizeof(Oid),.entrysize = sizeof(LaKnownTable)
	};

	if (likely(last != NULL && last->table == table))
		return last;
	if (tables == NULL)
	{
		tables = hash_create("pg_lookahead tables with a policy", FIRST_TABLES,
							 &control, HASH_ELEM | HASH_BLOBS);
		la_table_listen(&listener);
	}

	last = hash_search(tables, &table, HASH_FIND, NULL);
	return last;
}

/*
 * Whether the table is of a kind that can have a policy (la_interval_grid_open()), and is not a
 * partition: its rows would have to fit into that first.
 */
static bool
can_have_policy(Relation table)
{
#ifdef LA_PARTITIONS_PORTED
	PartitionKey key = RelationGetPartitionKey(table);

	return !table->rd_rel->relispartition &&
		key->strategy == PARTITION_STRATEGY_RANGE && key->partnatts == 1;
#else
	return false;
#endif
}

/*
 * Whether a partitioned table has a policy.  With an active snapshot.
 */
static bool
has_policy(Relation relation)
{
	Oid			table = RelationGetRelid(relation);
	LaKnownTable *known = find_known(table);
	uint64		before;
	bool		has_policy;

	if (likely(known != NULL))
		return known->has_policy;
	before = changes;
	has_policy = can_have_policy(relation) && la_interval_query_has_tables();
	if (has_policy)
	{
		/* That of the statement may be older than what core has told already. */
		PushActiveSnapshot(GetLatestSnapshot());
		has_policy = la_interval_policy_read(table) != NULL;
		PopActiveSnapshot();
	}
	/* What has changed meanwhile may have been overlooked. */
	if (changes == before)
	{
		if (hash_get_num_entries(tables) >= MOST_TABLES)
			forget_known(InvalidOid);
		known = hash_search(tables, &table, HASH_ENTER, NULL);
		known->has_policy = has_policy;
	}
	return has_policy;
}

/*
 * Rows will be inserted by this node, which may be of no plan.  NULL where none gets a
 * partition.
 */
LaNeeded *
la_needed_watch(ModifyTableState *node)
{
	Relation	table = node->rootResultRelInfo->ri_RelationDesc;
	MemoryContext caller;
	LaNeeded   *needed;

	if (!enable_interval_creation || !la_enabled || la_disable ||
		table->rd_rel->relkind != RELKIND_PARTITIONED_TABLE ||
		node->operation == CMD_DELETE || !has_policy(table) || !can_route_anew(node))
		return NULL;
	caller = MemoryContextSwitchTo(node->ps.state->es_query_cxt);
	needed = la_needed_begin(node);
	if (node->ps.plan != NULL)
		la_needed_projection_watch(needed);
	if (needed->partitions == NULL && needed->count > 0)
		la_needed_look_again(needed);
	MemoryContextSwitchTo(caller);
	return needed;
}
