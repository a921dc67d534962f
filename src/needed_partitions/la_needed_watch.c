/*-------------------------------------------------------------------------
 *
 * la_needed_watch.c
 *	  statements whose rows get partitions
 *
 * Reads ModifyTableState and ResultRelInfo of execnodes.h and PartitionKeyData of partcache.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"

#include "la_compat.h"
#include "la_guc.h"
#include "needed_partitions/la_needed_known.h"
#include "needed_partitions/la_needed_projection.h"
#include "needed_partitions/la_needed_settings.h"
#include "needed_partitions/la_needed_watch.h"

static bool is_suitable(const ModifyTableState *node);

/*
 * A query starts that changes rows, and has its plan nodes.
 */
void
la_needed_start(QueryDesc *query, int eflags)
{
	if (!la_enable_interval_creation || (eflags & EXEC_FLAG_EXPLAIN_ONLY))
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
 * Rows will be inserted by this node, which may be of no plan.  NULL where none gets a
 * partition.
 */
LaNeeded *
la_needed_watch(ModifyTableState *node)
{
	MemoryContext caller;
	LaNeeded   *needed;

	if (!la_enable_interval_creation || !la_enabled || la_disable ||
		!is_suitable(node) ||
		!la_needed_known(RelationGetRelid(node->rootResultRelInfo->ri_RelationDesc)))
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

/*
 * Whether the table is of a kind that can have a policy (la_interval_grid_open()), and is not a
 * partition: its rows would have to fit into that first.
 */
static bool
is_suitable(const ModifyTableState *node)
{
#ifdef LA_PARTITIONS_PORTED
	Relation	table = node->rootResultRelInfo->ri_RelationDesc;
	PartitionKey key;

	if (table->rd_rel->relkind != RELKIND_PARTITIONED_TABLE ||
		table->rd_rel->relispartition || node->operation == CMD_DELETE)
		return false;
	/* Those that a new routing has in common with the node would begin twice. */
	for (int i = 0; node->operation != CMD_INSERT && i < node->mt_nrels; i++)
	{
		if (node->resultRelInfo[i].ri_FdwRoutine != NULL)
			return false;
	}
	key = RelationGetPartitionKey(table);
	return key->strategy == PARTITION_STRATEGY_RANGE && key->partnatts == 1;
#else
	return false;
#endif
}
