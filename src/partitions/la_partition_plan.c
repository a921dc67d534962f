/*-------------------------------------------------------------------------
 *
 * la_partition_plan.c
 *	  which partitions of a series are missing
 *
 * All that core checks before it creates a partition and that depends on the
 * others is checked here, for the whole series, before the first one is
 * created: bounds against those of the partitions that exist, against each
 * other, and against the rows of a default partition; names against those of
 * other relations, and against each other.  Afterwards the descriptor of the
 * parent's partitions, which lists and sorts all of them, need not be built
 * anew for each: that is what grows with the square of their number.
 *
 * A partition with just this bound is there already, whatever its name, and
 * is passed over; so a series that was created in part can be completed.
 *
 * The caller holds a lock on the parent against other such changes.
 *
 * Reads PartitionKeyData of partcache.h and PartitionBoundInfoData of partbounds.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_inherits.h"
#include "common/int.h"
#include "miscadmin.h"
#include "parser/parse_node.h"
#include "parser/parse_utilcmd.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"

#include "partitions/la_partition_plan.h"
#include "partitions/la_partition_statement.h"

/* Planned partitions are sorted by value with the parent's key at hand. */
typedef struct LaSortedBy
{
	PartitionKey key;
	const LaPartitionPlan *plan;
} LaSortedBy;

/*
 * What core makes of the bound in the statement.
 */
static PartitionBoundSpec *
transform_bound(const LaPartitionRequest *request, Relation parent,
				const char *name, int i)
{
	char	   *text = la_partition_statement_text(request, name, i);
	CreateStmt *statement = la_partition_statement_parse(request, text);

	return transformPartitionBound(make_parsestate(NULL), parent,
								   statement->partbound);
}

/*
 * By partition that exists, how many values it is for; NULL where that does
 * not matter.
 */
static int *
count_values(PartitionDesc descriptor)
{
	PartitionBoundInfo bounds = descriptor->boundinfo;
	int		   *values;

	if (bounds == NULL || bounds->strategy != PARTITION_STRATEGY_LIST)
		return NULL;
	values = palloc0_array(int, descriptor->nparts);
	for (int i = 0; i < bounds->ndatums; i++)
		values[bounds->indexes[i]]++;
	if (partition_bound_accepts_nulls(bounds))
		values[bounds->null_index]++;
	return values;
}

/*
 * The index of the partition for this one value, or -1.
 */
static int
index_of_value(PartitionKey key, PartitionBoundInfo bounds,
			   const PartitionBoundSpec *bound, const int *values)
{
	const Const *value = linitial_node(Const, bound->listdatums);
	int			index = -1;

	if (value->constisnull)
		index = bounds->null_index;
	else
	{
		bool		is_equal;
		int			at = partition_list_bsearch(key->partsupfunc,
												key->partcollation, bounds,
												value->constvalue, &is_equal);

		if (at >= 0 && is_equal)
			index = bounds->indexes[at];
	}
	return index >= 0 && values[index] == 1 ? index : -1;
}

/*
 * The value of a bound of a single key.
 */
static const Const *
value_of(List *datums)
{
	PartitionRangeDatum *datum = linitial_node(PartitionRangeDatum, datums);

	return castNode(Const, datum->value);
}

static int
compare_values(PartitionKey key, const Const *a, const Const *b)
{
	return DatumGetInt32(FunctionCall2Coll(&key->partsupfunc[0],
										   key->partcollation[0],
										   a->constvalue, b->constvalue));
}

/*
 * The index of the partition of just this range, or -1.  That of a partition
 * is beside its upper bound (PartitionBoundInfoData in partbounds.h).
 */
static int
index_of_range(PartitionKey key, PartitionBoundInfo bounds,
			   const PartitionBoundSpec *bound)
{
	const Const *lower = value_of(bound->lowerdatums);
	Datum		value = lower->constvalue;
	Const		end = *value_of(bound->upperdatums);
	bool		is_equal;
	int			at;

	at = partition_range_datum_bsearch(key->partsupfunc, key->partcollation,
									   bounds, 1, &value, &is_equal);
	if (at < 0 || !is_equal || at + 1 >= bounds->ndatums ||
		bounds->indexes[at + 1] < 0 ||
		bounds->kind[at + 1][0] != PARTITION_RANGE_DATUM_VALUE)
		return -1;
	end.constvalue = bounds->datums[at + 1][0];
	if (compare_values(key, &end, value_of(bound->upperdatums)) != 0)
		return -1;
	return bounds->indexes[at + 1];
}

/*
 * Whether there is a partition with this bound.  One that is being detached
 * is no longer there, and yet in the way, which core finds.
 */
static bool
is_present(Relation parent, const PartitionBoundSpec *bound,
		   const int *values)
{
	PartitionKey key = RelationGetPartitionKey(parent);
	PartitionDesc descriptor = RelationGetPartitionDesc(parent, false);
	int			found;

	if (descriptor->boundinfo == NULL)
		return false;
	if (bound->strategy == PARTITION_STRATEGY_LIST)
		found = index_of_value(key, descriptor->boundinfo, bound, values);
	else
		found = index_of_range(key, descriptor->boundinfo, bound);
	return found >= 0 &&
		!(descriptor->detached_exist &&
		  PartitionHasPendingDetach(descriptor->oids[found]));
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

static void
check_names_differ(const LaPartitionPlan *plan)
{
	const char **names = palloc_array(const char *, Max(plan->count, 1));

	for (int i = 0; i < plan->count; i++)
		names[i] = plan->missing[i].name;
	qsort(names, plan->count, sizeof(char *), compare_names);
	for (int i = 1; i < plan->count; i++)
	{
		if (strcmp(names[i - 1], names[i]) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_TABLE),
					 errmsg("two partitions would be called \"%s\"", names[i]),
					 errhint("Give another pattern of names, such as one with {number}.")));
	}
	pfree(names);
}

static const Const *
planned_value(const LaPlannedPartition *planned)
{
	return linitial_node(Const, planned->bound->listdatums);
}

/*
 * Nulls last; equal ones in the order of the series.
 */
static int
compare_planned(const void *a, const void *b, void *arg)
{
	const LaSortedBy *sorted = arg;
	int			i = *(const int *) a;
	int			j = *(const int *) b;
	const Const *value = planned_value(&sorted->plan->missing[i]);
	const Const *other = planned_value(&sorted->plan->missing[j]);
	int			order;

	if (value->constisnull || other->constisnull)
		order = (int) value->constisnull - (int) other->constisnull;
	else
		order = compare_values(sorted->key, value, other);
	return order != 0 ? order : pg_cmp_s32(i, j);
}

/*
 * Values that are equal to the key's operator class, though their texts
 * differ, among them.
 */
static void
check_values_differ(const LaPartitionPlan *plan, Relation parent)
{
	LaSortedBy	sorted = {RelationGetPartitionKey(parent), plan};
	int		   *order = palloc_array(int, Max(plan->count, 1));

	for (int i = 0; i < plan->count; i++)
		order[i] = i;
	qsort_arg(order, plan->count, sizeof(int), compare_planned, &sorted);
	for (int i = 1; i < plan->count; i++)
	{
		const LaPlannedPartition *a = &plan->missing[order[i - 1]];
		const LaPlannedPartition *b = &plan->missing[order[i]];
		const Const *value = planned_value(a);
		const Const *next = planned_value(b);

		if (value->constisnull != next->constisnull)
			continue;
		if (value->constisnull || compare_values(sorted.key, value, next) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
					 errmsg("partition \"%s\" would overlap partition \"%s\"",
							b->name, a->name)));
	}
	pfree(order);
}

/*
 * Looks at partitions from "first" on, until so many are found missing or the
 * series ends.  Throws what core would throw at one of them.
 */
LaPartitionPlan *
la_partition_plan(const LaPartitionRequest *request, Relation parent,
				  int first, int limit)
{
	LaPartitionPlan *plan = palloc0_object(LaPartitionPlan);
	int			size = Min(limit, request->series->count - first);
	const int  *values = count_values(RelationGetPartitionDesc(parent, false));
	MemoryContext outer = CurrentMemoryContext;
	MemoryContext temporary = AllocSetContextCreate(outer,
													"pg_lookahead partition plan",
													ALLOCSET_DEFAULT_SIZES);

	plan->missing = palloc_array(LaPlannedPartition, Max(size, 1));
	for (plan->next = first;
		 plan->next < request->series->count && plan->count < limit;
		 plan->next++)
	{
		LaPlannedPartition *planned = &plan->missing[plan->count];
		char	   *name;
		PartitionBoundSpec *bound;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(temporary);
		MemoryContextSwitchTo(temporary);
		name = la_partition_name(request->names, RelationGetRelationName(parent),
								 request->series, plan->next);
		bound = transform_bound(request, parent, name, plan->next);
		if (is_present(parent, bound, values))
			continue;
		check_new_partition_bound(name, parent, bound, make_parsestate(NULL));
		if (OidIsValid(get_relname_relid(name, RelationGetNamespace(parent))))
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_TABLE),
					 errmsg("relation \"%s\" already exists", name),
					 errdetail("It is no partition of \"%s\" with the bounds that it should have.",
							   RelationGetRelationName(parent)),
					 errhint("Give another pattern of names.")));

		MemoryContextSwitchTo(outer);
		planned->number = plan->next;
		planned->name = pstrdup(name);
		planned->bound = copyObject(bound);
		plan->count++;
	}
	MemoryContextSwitchTo(outer);
	MemoryContextDelete(temporary);
	check_names_differ(plan);
	if (request->series->is_list)
		check_values_differ(plan, parent);
	return plan;
}

/*
 * The bound of a partition that these would make together.
 */
static PartitionBoundSpec *
join_bounds(const LaPartitionPlan *plan, int first, int count)
{
	PartitionBoundSpec *joined = copyObject(plan->missing[first].bound);
	const PartitionBoundSpec *last = plan->missing[first + count - 1].bound;

	if (joined->strategy == PARTITION_STRATEGY_RANGE)
		joined->upperdatums = last->upperdatums;
	else
	{
		for (int i = first + 1; i < first + count; i++)
			joined->listdatums = lappend(joined->listdatums,
										 unconstify(Const *, planned_value(&plan->missing[i])));
	}
	return joined;
}

/*
 * Throws where the default partition has rows of a partition that is to be
 * created.  Neighbours are one range, and values one list, so that the rows
 * are read once and not for each partition.
 */
void
la_partition_plan_check_default(const LaPartitionPlan *plan, Relation parent,
								Relation default_partition)
{
	bool		is_list = RelationGetPartitionKey(parent)->strategy ==
		PARTITION_STRATEGY_LIST;
	int			end;

	for (int first = 0; first < plan->count; first = end)
	{
		end = first + 1;
		while (end < plan->count &&
			   (is_list ||
				plan->missing[end].number == plan->missing[end - 1].number + 1))
			end++;
		check_default_partition_contents(parent, default_partition,
										 join_bounds(plan, first, end - first));
	}
}

/*
 * The partition of just this range, or InvalidOid.
 */
Oid
la_partition_plan_range(Relation parent, const PartitionBoundSpec *bound)
{
	PartitionDesc descriptor = RelationGetPartitionDesc(parent, false);
	int			found = descriptor->boundinfo == NULL ? -1 :
		index_of_range(RelationGetPartitionKey(parent), descriptor->boundinfo, bound);

	return found < 0 ? InvalidOid : descriptor->oids[found];
}
