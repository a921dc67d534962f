/*-------------------------------------------------------------------------
 *
 * la_needed_watch.c
 *	  statements whose rows get partitions
 *
 * A setting and no column of the policy says whether: if a slip in a row may make a partition is a
 * question of who writes, a bulk load or an application, not of the table.
 *
 * Reads ModifyTableState and ResultRelInfo of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "la_guc.h"
#include "needed_partitions/la_needed_known.h"
#include "needed_partitions/la_needed_projection.h"
#include "needed_partitions/la_needed_watch.h"

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

static bool is_suitable(const ModifyTableState *node);

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
		node->operation == CMD_DELETE || !la_needed_known(table) || !is_suitable(node))
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
 * Whether rows of this node can be routed anew: where rows move, partitions that a new routing has in
 * common with the node would begin twice.
 */
static bool
is_suitable(const ModifyTableState *node)
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
