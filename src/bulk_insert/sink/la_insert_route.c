/*-------------------------------------------------------------------------
 *
 * la_insert_route.c
 *	  which partition a row goes to
 *
 * Core finds a partition when it is met first, opens and locks it, and has the error
 * messages.  After that it is found by the table's bounds (la_insert_bounds.c), where they
 * are of a kind that is quick to compare.  Mirrors ExecPrepareTupleRouting() in
 * nodeModifyTable.c.  Whether rows of a partition may be collected is found out when it is
 * met, or when rows begin to be.  Reads ModifyTableState and ResultRelInfo of execnodes.h.
 *
 * What belongs to a partition is remembered where COPY remembers its own: there is no COPY
 * that uses the same ResultRelInfo.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/execPartition.h"
#include "executor/executor.h"
#include "partitioning/partdesc.h"
#include "utils/rel.h"

#include "bulk_insert/judge/la_insert_judge.h"
#include "bulk_insert/judge/la_insert_relation.h"
#include "bulk_insert/sink/la_insert_route.h"

/* Room for so many partitions at first: arbitrary. */
#define FIRST_PARTITIONS 16

/*
 * Core finds the partitions of so many rows that are collected: a COPY of a few rows is not
 * to look at all bounds.  Arbitrary.
 */
#define FEW_ROWS 32

/* Stands for what belongs to a partition whose rows are left to core. */
static LaInsertTarget refused;

static LaInsertTarget *find_by_core(LaInsertRoute *route, TupleTableSlot *row,
									int number);
static PartitionDesc descriptor_of(const LaInsertRoute *route);
static LaInsertTarget *target_of(LaInsertRoute *route,
								 ResultRelInfo *partition);
static LaReason unsuitable(LaInsertRoute *route, ResultRelInfo *partition);
static void collect_targets(LaInsertRoute *route);
static void refuse(ResultRelInfo *partition);
static void remember(LaInsertRoute *route, LaInsertTarget *target);

/*
 * Rows will be inserted into the partitions of this node's table.  Allocates in the
 * current context.
 */
LaInsertRoute *
la_insert_route_begin(ModifyTableState *node, LaInsertCommon *common)
{
	LaInsertRoute *route = palloc0_object(LaInsertRoute);

	route->node = node;
	route->common = common;
	/* Those of a COPY are provided with before they come here. */
	if (node->ps.plan != NULL)
		route->needed = la_needed_find(node);
	return route;
}

/*
 * From now on rows are collected, and there may be many.
 */
void
la_insert_route_collect(LaInsertRoute *route)
{
	route->collects = true;
	collect_targets(route);
	route->wants_bounds = true;
}

/*
 * There are so many rows that it is worth while to look at all bounds.
 */
static void
read_bounds(LaInsertRoute *route)
{
	EState	   *estate = route->common->estate;
	Relation	table = route->node->rootResultRelInfo->ri_RelationDesc;
	PartitionDesc partitions = descriptor_of(route);
	MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);

	bool		is_deep = false;

	route->wants_bounds = false;
	for (int i = 0; i < partitions->nparts; i++)
		is_deep |= !partitions->is_leaf[i];
	if (!is_deep)
		route->bounds = la_insert_bounds_read(table, partitions, estate);
	if (route->bounds != NULL)
		route->by_bound = palloc0_array(LaInsertTarget *, partitions->nparts);
	MemoryContextSwitchTo(caller);
}

/*
 * The partition that a row goes to; the row comes back as one of it, maybe in another
 * slot.  NULL when that, and what follows, must be left to core: then it is unchanged.
 */
LaInsertTarget *
la_insert_route_find(LaInsertRoute *route, TupleTableSlot **row)
{
	EState	   *estate = route->common->estate;
	LaInsertTarget *target = NULL;
	int			number = -1;

	if (unlikely(route->wants_bounds) && ++route->rows_without > FEW_ROWS)
		read_bounds(route);
	if (route->bounds != NULL)
		number = la_insert_bounds_find(route->bounds, *row, estate);
	if (number >= 0)
		target = route->by_bound[number];

	/*
	 * One is to be created, and core finds it by another routing from then
	 * on.
	 */
	if (target == NULL && unlikely(route->needed != NULL) &&
		la_needed_lacks(route->needed, NULL, *row))
	{
		route->reason = LA_REASON_NEW_PARTITION;
		return NULL;
	}
	if (target == NULL)
		target = find_by_core(route, *row, number);
	if (target == NULL)
		return NULL;
	Assert(number < 0 || target == find_by_core(route, *row, -1));
	if (target->map != NULL)
		*row = execute_attr_map_slot(target->map->attrMap, *row,
									 target->relation->ri_PartitionTupleSlot);
	return target;
}

/*
 * The partition that core finds for a row; NULL as above.  It is the one of this number,
 * unless that is -1.
 */
static LaInsertTarget *
find_by_core(LaInsertRoute *route, TupleTableSlot *row, int number)
{
	ModifyTableState *node = route->node;
	ResultRelInfo *partition;
	LaInsertTarget *target;

	partition = ExecFindPartition(node, node->rootResultRelInfo,
								  node->mt_partition_tuple_routing, row,
								  route->common->estate);
	target = target_of(route, partition);
	if (target == NULL)
		route->refused = partition;
	if (number < 0)
		return target;
	if (descriptor_of(route)->oids[number] !=
		RelationGetRelid(partition->ri_RelationDesc))
		elog(ERROR, "bounds of partitions have been misread");
	route->by_bound[number] = target;
	return target;
}

/*
 * The table's partitions, as core sees them in this query.
 */
static PartitionDesc
descriptor_of(const LaInsertRoute *route)
{
	return PartitionDirectoryLookup(route->common->estate->es_partition_directory,
									route->node->rootResultRelInfo->ri_RelationDesc);
}

static LaInsertTarget *
target_of(LaInsertRoute *route, ResultRelInfo *partition)
{
	LaInsertTarget *target =
		(LaInsertTarget *) partition->ri_CopyMultiInsertBuffer;
	MemoryContext caller;

	if (likely(target != NULL))
		return target == &refused ? NULL : target;
	route->reason = unsuitable(route, partition);
	if (route->reason != LA_REASON_NONE)
	{
		refuse(partition);
		return NULL;
	}
	caller = MemoryContextSwitchTo(route->common->estate->es_query_cxt);
	target = palloc_object(LaInsertTarget);
	la_insert_target_begin(target, route->common, partition);
	target->map = ExecGetRootToChildMap(partition, route->common->estate);
	route->has_indexes |= partition->ri_NumIndices > 0;
	if (route->collects)
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
	LaReason	reason = la_insert_unsuitable_table(partition);
	bool		is_copy = route->common->line != NULL;
	bool		runs_user_code;

	if (reason == LA_REASON_NONE)
		reason = la_insert_unsuitable_row_triggers(partition->ri_TrigDesc,
												   !is_copy);
	if (reason == LA_REASON_NONE && route->collects &&
		la_insert_has_volatile_check(partition, &runs_user_code))
		reason = LA_REASON_VOLATILE;
	return reason;
}

/*
 * Rows of the partitions that have been met are collected from now on, unless something
 * evaluated for them could see those that wait.  That takes longer to find out than
 * inserting a few rows.
 */
static void
collect_targets(LaInsertRoute *route)
{
	int			count = 0;

	for (int i = 0; i < route->count; i++)
	{
		LaInsertTarget *target = route->targets[i];
		ResultRelInfo *partition = target->relation;
		bool		runs_user_code;

		if (la_insert_has_volatile_check(partition, &runs_user_code))
		{
			route->reason = LA_REASON_VOLATILE;
			refuse(partition);
			continue;
		}
		la_insert_target_collect(target);
		target->place = count;
		route->targets[count++] = target;
	}
	route->count = count;
}

/*
 * Rows of this partition are left to core.
 */
static void
refuse(ResultRelInfo *partition)
{
	partition->ri_CopyMultiInsertBuffer =
		(struct CopyMultiInsertBuffer *) &refused;
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
	target->place = route->count;
	route->targets[route->count++] = target;
}
