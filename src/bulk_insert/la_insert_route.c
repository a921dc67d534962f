/*-------------------------------------------------------------------------
 *
 * la_insert_route.c
 *	  which partition a row goes to
 *
 * Core finds the partition, opens and locks it when it is met first, and has the error
 * messages.  Mirrors ExecPrepareTupleRouting() in nodeModifyTable.c.  Whether rows of a
 * partition may be collected is found out when it is met.
 *
 * What belongs to a partition is remembered where COPY remembers its own: there is no COPY
 * that uses the same ResultRelInfo.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/partition.h"
#include "executor/execPartition.h"
#include "executor/executor.h"
#include "partitioning/partdesc.h"
#include "utils/rel.h"

#include "bulk_insert/la_insert_judge.h"
#include "bulk_insert/la_insert_reason.h"
#include "bulk_insert/la_insert_route.h"

/* Room for so many partitions at first: arbitrary. */
#define FIRST_PARTITIONS 16

static LaInsertTarget *target_of(LaInsertRoute *route,
								 ResultRelInfo *partition);
static LaReason unsuitable(LaInsertRoute *route, ResultRelInfo *partition);
static bool has_volatile_way(LaInsertRoute *route, Relation partition);
static void remember(LaInsertRoute *route, LaInsertTarget *target);

/*
 * Rows will be inserted into the partitions of this node's table.  Allocates in the
 * current context.
 */
LaInsertRoute *
la_insert_route_begin(ModifyTableState *node, LaInsertCommon *common)
{
	LaInsertRoute *route = palloc0_object(LaInsertRoute);
	Relation	table = node->rootResultRelInfo->ri_RelationDesc;
	PartitionDirectory directory = common->estate->es_partition_directory;
	PartitionDesc partitions = PartitionDirectoryLookup(directory, table);

	route->node = node;
	route->common = common;
	for (int i = 0; i < partitions->nparts && !route->is_deep; i++)
		route->is_deep = !partitions->is_leaf[i];
	return route;
}

/*
 * The partition that a row goes to; the row comes back as one of it, maybe in another
 * slot.  NULL when that, and what follows, must be left to core: then it is unchanged.
 */
LaInsertTarget *
la_insert_route_find(LaInsertRoute *route, TupleTableSlot **row)
{
	ModifyTableState *node = route->node;
	EState	   *estate = route->common->estate;
	ResultRelInfo *partition;
	LaInsertTarget *target;
	TupleConversionMap *map;

	partition = ExecFindPartition(node, node->rootResultRelInfo,
								  node->mt_partition_tuple_routing, *row,
								  estate);
	target = target_of(route, partition);
	if (target == NULL)
		return NULL;
	map = ExecGetRootToChildMap(partition, estate);
	if (map != NULL)
		*row = execute_attr_map_slot(map->attrMap, *row,
									 partition->ri_PartitionTupleSlot);
	return target;
}

static LaInsertTarget *
target_of(LaInsertRoute *route, ResultRelInfo *partition)
{
	LaInsertTarget *target =
		(LaInsertTarget *) partition->ri_CopyMultiInsertBuffer;
	MemoryContext caller;

	if (likely(target != NULL))
		return target;
	route->reason = unsuitable(route, partition);
	if (route->reason != LA_REASON_NONE)
		return NULL;

	caller = MemoryContextSwitchTo(route->common->estate->es_query_cxt);
	target = palloc_object(LaInsertTarget);
	la_insert_target_begin(target, route->common, partition);
	if (route->pool != NULL)
		la_insert_target_collect(target);
	remember(route, target);
	partition->ri_CopyMultiInsertBuffer =
		(struct CopyMultiInsertBuffer *) target;
	MemoryContextSwitchTo(caller);
	return target;
}

/*
 * Why rows of this partition are left to core.
 */
static LaReason
unsuitable(LaInsertRoute *route, ResultRelInfo *partition)
{
	Relation	table = partition->ri_RelationDesc;
	LaReason	reason = la_insert_unsuitable_table(partition);
	bool		runs_user_code;

	if (reason == LA_REASON_NONE)
		reason = la_insert_unsuitable_triggers(partition->ri_TrigDesc, true);
	if (reason == LA_REASON_NONE &&
		(la_insert_has_volatile_check(table, true, &runs_user_code) ||
		 has_volatile_way(route, table)))
		reason = LA_REASON_VOLATILE;
	return reason;
}

/*
 * Could a partition key between the table and this partition of a partition see rows
 * that wait?  That of the table itself has been looked at before the first row.
 */
static bool
has_volatile_way(LaInsertRoute *route, Relation partition)
{
	Oid			first = RelationGetRelid(partition);
	Oid			top = RelationGetRelid(route->node->rootResultRelInfo->ri_RelationDesc);
	Oid			way = route->is_deep ? get_partition_parent(first, true) : top;
	bool		found = false;

	first = way;
	while (!found && way != top && way != route->judged)
	{
		/* Core has locked it. */
		Relation	table = table_open(way, NoLock);

		found = la_insert_has_volatile_key(table);
		table_close(table, NoLock);
		way = get_partition_parent(way, true);
	}
	if (!found)
		route->judged = first;
	return found;
}

static void
remember(LaInsertRoute *route, LaInsertTarget *target)
{
	if (route->count == route->size)
	{
		route->size = Max(2 * route->size, FIRST_PARTITIONS);
		route->targets = route->targets == NULL ?
			palloc_array(LaInsertTarget *, route->size) :
			repalloc_array(route->targets, LaInsertTarget *, route->size);
	}
	route->targets[route->count++] = target;
}
