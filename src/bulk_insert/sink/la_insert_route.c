/*-------------------------------------------------------------------------
 *
 * la_insert_route.c
 *	  which partition a row goes to
 *
 * Core finds a partition when it is met first, opens and locks it, and has the error
 * messages.  After that it is found by the table's bounds, where the key is one column, or
 * expression, that is a number, a date or a timestamp.  A row that no bound has a partition for
 * is core's: it may be for the default partition, or for none.
 *
 * Mirrors ExecPrepareTupleRouting() in nodeModifyTable.c, and FormPartitionKeyDatum() and
 * get_partition_for_tuple() in execPartition.c.  Whether rows of a partition may be collected is
 * found out when it is met, or when rows begin to be.  Reads ModifyTableState and ResultRelInfo
 * of execnodes.h, PartitionKeyData of partcache.h and PartitionBoundInfoData of partbounds.h.
 *
 * What belongs to a partition is remembered where COPY remembers its own: there is no COPY
 * that uses the same ResultRelInfo.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/execPartition.h"
#include "executor/executor.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "utils/fmgroids.h"
#include "utils/partcache.h"
#include "utils/rel.h"

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
static LaInsertTarget no_target;

/*
 * Bytes of the number that is a key; 0 when it is no number.
 */
static int
key_size(const PartitionKey key)
{
	if (key->partnatts != 1 || key->strategy == PARTITION_STRATEGY_HASH)
		return 0;
	switch (key->partsupfunc[0].fn_oid)
	{
		case F_BTINT2CMP:
			return sizeof(int16);
		case F_BTINT4CMP:
		case F_DATE_CMP:
			return sizeof(int32);
		case F_BTINT8CMP:
		case F_TIMESTAMP_CMP:
		case F_TIMESTAMPTZ_CMP:
			return sizeof(int64);
		default:
			return 0;
	}
}

static inline int64
number_of(const LaInsertBounds *bounds, Datum value)
{
	if (bounds->key_size == sizeof(int64))
		return DatumGetInt64(value);
	return bounds->key_size == sizeof(int32) ? DatumGetInt32(value) : DatumGetInt16(value);
}

/*
 * The bounds of a table's partitions, in the current memory context; NULL when rows have to
 * be looked up by core.  In ranges there is a partition from a bound on, or none.
 */
static LaInsertBounds *
make_bounds(Relation table, const PartitionBoundInfoData *info, EState *estate)
{
	PartitionKey key = RelationGetPartitionKey(table);
	LaInsertBounds *bounds;

	if (info == NULL || table->rd_rel->relispartition || key_size(key) == 0)
		return NULL;
	bounds = palloc0_object(LaInsertBounds);
	bounds->key_size = key_size(key);
	bounds->column = key->partattrs[0];
	bounds->is_list = key->strategy == PARTITION_STRATEGY_LIST;
	bounds->default_partition = info->default_index;
	bounds->last = -1;
	bounds->numbers = palloc_array(int64, info->ndatums);
	bounds->partitions = palloc_array(int, info->ndatums);
	if (bounds->column == 0)
		bounds->expression = ExecPrepareExpr(linitial(key->partexprs), estate);
	for (int i = 0; i < info->ndatums; i++)
	{
		PartitionRangeDatumKind kind = bounds->is_list ? PARTITION_RANGE_DATUM_VALUE :
			info->kind[i][0];

		if (kind == PARTITION_RANGE_DATUM_MAXVALUE)
			continue;
		bounds->numbers[bounds->count] = kind == PARTITION_RANGE_DATUM_MINVALUE ?
			PG_INT64_MIN : number_of(bounds, info->datums[i][0]);
		bounds->partitions[bounds->count++] = info->indexes[bounds->is_list ? i : i + 1];
	}
	return bounds;
}

/*
 * The last bound that is not above a number, or -1.  Halves the bounds without a branch, which
 * the processor would foresee every other time.
 */
static int
search_bounds(const LaInsertBounds *bounds, int64 number)
{
	const int64 *low = bounds->numbers;
	int			count = bounds->count;

	if (count == 0 || number < *low)
		return -1;
	while (count > 1)
	{
		int			half = count / 2;

		low += low[half] <= number ? half : 0;
		count -= half;
	}
	return low - bounds->numbers;
}

/*
 * The partition of a row of the table, as its number among the table's partitions; -1 when
 * core has to look.  The expression is evaluated in the memory of one row.
 */
static int
find_by_bounds(LaInsertBounds *bounds, TupleTableSlot *row, EState *estate)
{
	ExprContext *context = GetPerTupleExprContext(estate);
	int			last = bounds->last;
	bool		is_null;
	Datum		value;
	int64		number;

	if (bounds->expression != NULL)
	{
		context->ecxt_scantuple = row;
		value = ExecEvalExprSwitchContext(bounds->expression, context, &is_null);
	}
	else
		value = slot_getattr(row, bounds->column, &is_null);
	if (is_null)
		return -1;
	number = number_of(bounds, value);
	if (last < 0 || bounds->numbers[last] > number ||
		(last + 1 < bounds->count && bounds->numbers[last + 1] <= number))
		last = bounds->last = search_bounds(bounds, number);
	if (last < 0 || (bounds->is_list && bounds->numbers[last] != number) ||
		bounds->partitions[last] == bounds->default_partition)
		return -1;
	return bounds->partitions[last];
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

/*
 * There are so many rows that it is worth while to look at all bounds.
 */
static void
read_bounds(LaInsertRoute *route)
{
	EState	   *estate = route->common->estate;
	PartitionDesc partitions = descriptor_of(route);
	MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);

	route->wants_bounds = false;

	/*
	 * One that is partitioned again may have been attached since the table
	 * was looked at.
	 */
	if (!la_insert_has_subpartitions(partitions))
		route->bounds = make_bounds(route->node->rootResultRelInfo->ri_RelationDesc,
									partitions->boundinfo, estate);
	if (route->bounds != NULL)
		route->by_bound = palloc0_array(LaInsertTarget *, partitions->nparts);
	MemoryContextSwitchTo(caller);
}

/*
 * Rows of this partition are left to core.
 */
static void
refuse_partition(LaInsertRoute *route, ResultRelInfo *partition, LaReason reason)
{
	route->reason = reason;
	partition->ri_CopyMultiInsertBuffer =
		(struct CopyMultiInsertBuffer *) &no_target;
}

/*
 * What belongs to a partition; NULL when its rows are left to core.
 */
static LaInsertTarget *
target_of(LaInsertRoute *route, ResultRelInfo *partition)
{
	LaInsertTarget *target =
		(LaInsertTarget *) partition->ri_CopyMultiInsertBuffer;
	LaReason	reason;
	MemoryContext caller;

	if (likely(target != NULL))
		return target == &no_target ? NULL : target;
	reason = la_insert_unsuitable_partition(partition, route->common->line != NULL);
	if (reason == LA_REASON_NONE && route->collects &&
		la_insert_calls(partition) == LA_CALLS_SEEING)
		reason = LA_REASON_VOLATILE;
	if (reason != LA_REASON_NONE)
	{
		refuse_partition(route, partition, reason);
		return NULL;
	}
	caller = MemoryContextSwitchTo(route->common->estate->es_query_cxt);
	target = palloc_object(LaInsertTarget);
	la_insert_target_begin(target, route->common, partition);
	target->map = ExecGetRootToChildMap(partition, route->common->estate);
	route->has_indexes |= partition->ri_NumIndices > 0;
	if (route->collects)
		la_insert_target_collect(target);
	if (route->count == route->size)
	{
		route->size = Max(2 * route->size, FIRST_PARTITIONS);
		route->targets = route->targets == NULL ?
			palloc_array(LaInsertTarget *, route->size) :
			repalloc_array(route->targets, LaInsertTarget *, route->size);
	}
	target->number = route->count;
	route->targets[route->count++] = target;
	partition->ri_CopyMultiInsertBuffer =
		(struct CopyMultiInsertBuffer *) target;
	MemoryContextSwitchTo(caller);
	return target;
}

/*
 * The partition that core finds for a row; NULL when its rows are left to core.  It is the one
 * of this number, unless that is -1.
 */
static LaInsertTarget *
find_by_core(LaInsertRoute *route, TupleTableSlot *row, int number)
{
	ModifyTableState *node = route->node;
	ResultRelInfo *partition = ExecFindPartition(node, node->rootResultRelInfo,
												 node->mt_partition_tuple_routing, row,
												 route->common->estate);
	LaInsertTarget *target = target_of(route, partition);

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
 * The partition that a row goes to; the row comes back as one of it, maybe in another
 * slot.  NULL when it must be left to core, of an INSERT with all that follow, of a COPY alone: then
 * it is unchanged.
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
		number = find_by_bounds(route->bounds, *row, estate);
	if (number >= 0)
		target = route->by_bound[number];

	/*
	 * The row has no partition yet.  Core, which goes on with it, has one
	 * created (la_needed_projection.c), and finds it by a new routing, which
	 * we do not know.
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
 * Rows will be inserted into the partitions of this node's table.  Allocates in the
 * current context.
 */
LaInsertRoute *
la_insert_route_begin(ModifyTableState *node, LaInsertCommon *common)
{
	LaInsertRoute *route = palloc0_object(LaInsertRoute);

	route->node = node;
	route->common = common;
	/* A COPY has partitions created before its rows come here. */
	if (node->ps.plan != NULL)
		route->needed = la_needed_find(node);
	return route;
}

/*
 * From now on rows are collected, and there may be many: those of the partitions that have been
 * met, unless something evaluated for them could see those that wait.  That takes longer to find
 * out than inserting a few rows.
 */
void
la_insert_route_collect(LaInsertRoute *route)
{
	int			count = 0;

	route->collects = true;
	route->wants_bounds = true;
	for (int i = 0; i < route->count; i++)
	{
		LaInsertTarget *target = route->targets[i];

		if (la_insert_calls(target->relation) == LA_CALLS_SEEING)
		{
			refuse_partition(route, target->relation, LA_REASON_VOLATILE);
			continue;
		}
		la_insert_target_collect(target);
		target->number = count;
		route->targets[count++] = target;
	}
	route->count = count;
}
