/*-------------------------------------------------------------------------
 *
 * la_registry.c
 *	  running queries, and what is known about their plan nodes
 *
 * A PlanState has no room for us, so nodes are found by their address in
 * one hash table of the backend.  The entries of a query disappear by a
 * reset callback on its memory context: that is reached at a normal end, by
 * an error, by a cursor that is closed in an aborted subtransaction, and
 * always before the addresses can be used again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/memutils.h"

#include "attach/la_registry.h"

typedef struct LaNodeEntry
{
	PlanState  *planstate;		/* hash key */
	LaNode	   *node;
	char		status;
} LaNodeEntry;

#define SH_PREFIX nodetable
#define SH_ELEMENT_TYPE LaNodeEntry
#define SH_KEY_TYPE PlanState *
#define SH_KEY planstate
#define SH_HASH_KEY(tb, key) murmurhash64((uint64) (uintptr_t) (key))
#define SH_EQUAL(tb, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* The same for queries, which can be as many as there are open cursors. */
typedef struct LaQueryEntry
{
	EState	   *estate;			/* hash key */
	LaQuery    *query;
	char		status;
} LaQueryEntry;

#define SH_PREFIX querytable
#define SH_ELEMENT_TYPE LaQueryEntry
#define SH_KEY_TYPE EState *
#define SH_KEY estate
#define SH_HASH_KEY(tb, key) murmurhash64((uint64) (uintptr_t) (key))
#define SH_EQUAL(tb, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* Initial sizes of the hash tables: arbitrary; they grow. */
#define NODE_TABLE_SIZE 64
#define QUERY_TABLE_SIZE 8

static nodetable_hash *node_table = NULL;
static querytable_hash *query_table = NULL;

/* A node that is executed is looked up with every row. */
static LaNode *last_found = NULL;

/*
 * Memory context callback at the end of a query: forgets it and its nodes.  Must
 * not throw.
 */
static void
forget_query(void *arg)
{
	LaQuery    *query = (LaQuery *) arg;
	slist_iter	iter;

	last_found = NULL;
	query->at_end(query);
	slist_foreach(iter, &query->nodes)
	{
		LaNode	   *node = slist_container(LaNode, link, iter.cur);

		nodetable_delete(node_table, node->planstate);
	}
	querytable_delete(query_table, query->estate);
}

/*
 * Registers a query, of which at_end() will be told that it is over; that must
 * not throw.  Allocates in its per-query memory context.
 */
LaQuery *
la_registry_add_query(EState *estate, void (*at_end) (LaQuery *query))
{
	LaQuery    *query;
	bool		found;

	if (node_table == NULL)
		node_table = nodetable_create(TopMemoryContext, NODE_TABLE_SIZE, NULL);
	if (query_table == NULL)
		query_table = querytable_create(TopMemoryContext, QUERY_TABLE_SIZE, NULL);

	query = MemoryContextAllocZero(estate->es_query_cxt, sizeof(LaQuery));
	query->estate = estate;
	query->at_end = at_end;
	slist_init(&query->nodes);
	slist_init(&query->gathers);
	query->on_reset.func = forget_query;
	query->on_reset.arg = query;
	querytable_insert(query_table, estate, &found)->query = query;
	Assert(!found);
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &query->on_reset);
	return query;
}

/*
 * The query of this EState, or NULL when it is not registered.
 */
LaQuery *
la_registry_find_query(EState *estate)
{
	LaQueryEntry *entry;

	if (query_table == NULL || query_table->members == 0)
		return NULL;
	entry = querytable_lookup(query_table, estate);
	return entry == NULL ? NULL : entry->query;
}

/*
 * Registers a plan node.  Returns NULL when it is registered already.
 */
LaNode *
la_registry_add(LaQuery *query, PlanState *planstate, LaFeature feature)
{
	LaNodeEntry *entry;
	LaNode	   *node;
	bool		found;

	if (nodetable_lookup(node_table, planstate) != NULL)
		return NULL;
	node = MemoryContextAllocZero(query->estate->es_query_cxt, sizeof(LaNode));
	entry = nodetable_insert(node_table, planstate, &found);
	node->planstate = planstate;
	node->plan_node_id = planstate->plan->plan_node_id;
	node->query = query;
	node->reason = LA_REASON_NONE;
	node->feature = feature;
	entry->node = node;
	slist_push_head(&query->nodes, &node->link);
	return node;
}

/*
 * What is registered for a plan node, or NULL.
 */
LaNode *
la_registry_find(PlanState *planstate)
{
	LaNodeEntry *entry;

	if (last_found != NULL && last_found->planstate == planstate)
		return last_found;
	if (node_table == NULL)
		return NULL;
	entry = nodetable_lookup(node_table, planstate);
	if (entry == NULL)
		return NULL;
	last_found = entry->node;
	return last_found;
}

/*
 * How many rows can still be wanted from a node, the next one included.
 * PG_UINT64_MAX when nothing bounds it.  A Limit computes its bounds before
 * it asks us for a row, and counts rows as they pass.  Relies on
 * recompute_limits() and ExecLimit() in nodeLimit.c; reads LimitState of
 * execnodes.h.
 */
uint64
la_registry_rows_wanted(const LaNode *node)
{
	const LimitState *limit = node->limit;
	int64		wanted;

	if (limit == NULL || limit->noCount ||
		limit->limitOption != LIMIT_OPTION_COUNT ||
		limit->count > PG_INT64_MAX - limit->offset)
		return PG_UINT64_MAX;
	wanted = limit->offset + limit->count - limit->position;
	return Max(wanted, 1);
}
