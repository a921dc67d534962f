/*-------------------------------------------------------------------------
 *
 * la_interval_grid.c
 *	  the series of ranges into which a policy divides the values of a key
 *
 * Every value is in exactly one range of the grid.  Its bounds are the origin
 * and a number of steps, also before the origin.  From each change of the step
 * on they are that bound and a number of the new steps; the range before it
 * ends there.
 *
 * Values are compared by the key's own operator class, which has to be that of
 * the type: among descending keys "the next range" would be another one.
 *
 * Whoever makes a grid is the owner of the table, in the policy's time zone
 * (la_interval_owner.c).
 *
 * Reads PartitionKeyData of partcache.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "utils/date.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "intervals/la_interval_grid.h"
#include "la_sql_function.h"
#include "partitions/la_partition_create.h"

static void
check_parent(Relation parent)
{
	la_partition_check_key(parent, false);
	if (RelationGetPartitionKey(parent)->partsupfunc[0].fn_oid >= FirstUnpinnedObjectId)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the partition key of \"%s\" has an operator class that is not the type's",
						RelationGetRelationName(parent))));
	if (parent->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("temporary table \"%s\" cannot have an interval policy",
						RelationGetRelationName(parent))));
}

/*
 * Opens a table that can have a policy, with an AccessShareLock.
 */
Relation
la_interval_grid_open(Oid parent)
{
	Relation	relation = try_table_open(parent, AccessShareLock);

	if (relation == NULL)
		la_partition_refuse_missing(parent);
	check_parent(relation);
	return relation;
}

bool
la_interval_grid_is_time(Oid key_type)
{
	return key_type == DATEOID || key_type == TIMESTAMPOID ||
		key_type == TIMESTAMPTZOID || key_type == UUIDOID;
}

/*
 * The grid of a policy, which it needs no longer.  Throws where its texts make no sense for the
 * key, which may have been changed since.
 */
LaIntervalGrid *
la_interval_grid_make(const LaIntervalPolicy *policy, Relation parent)
{
	PartitionKey key = RelationGetPartitionKey(parent);
	LaIntervalGrid *grid = palloc0_object(LaIntervalGrid);

	grid->modifier = key->parttypmod[0];
	grid->key_type = getBaseTypeAndTypmod(key->parttypid[0], &grid->modifier);
	fmgr_info_copy(&grid->compare, &key->partsupfunc[0], CurrentMemoryContext);
	grid->collation = key->partcollation[0];
	grid->count = policy->changes + 1;
	grid->segments = palloc0_array(LaIntervalSegment, grid->count);
	for (int i = 0; i < grid->count; i++)
	{
		LaIntervalSegment *segment = &grid->segments[i];
		char	   *origin = pstrdup(i == 0 ? policy->origin
									 : policy->change_starts[i - 1]);
		char	   *step = i == 0 ? policy->step : policy->change_steps[i - 1];

		segment->start = la_interval_grid_bound(grid, origin);
		origin = segment->start.text;
		if (grid->key_type == UUIDOID)
			origin = la_partition_series_uuid_time(origin);
		segment->series = la_partition_series_ranges(grid->key_type, origin,
													 step, 1);
	}
	return grid;
}

/*
 * A value of the key from its text.  Steps are counted by texts, so where the key's modifier
 * rounds the value that of the bound is another one.
 */
LaIntervalBound
la_interval_grid_bound(const LaIntervalGrid *grid, char *text)
{
	LaIntervalBound bound;
	Oid			input;
	Oid			parameter;

	getTypeInputInfo(grid->key_type, &input, &parameter);
	bound.text = text;

	bound.value = OidInputFunctionCall(input, text, parameter, grid->modifier);
	if (grid->modifier >= 0)
	{
		LaIntervalBound exact = {.value = OidInputFunctionCall(input, text, parameter, -1)};

		if (la_interval_grid_compare(grid, &bound, &exact) != 0)
			bound.text = la_sql_argument_text_of(bound.value, grid->key_type);
	}
	return bound;
}

/*
 * The bound with its text.
 */
LaIntervalBound
la_interval_grid_complete(Oid key_type, const LaIntervalBound *bound)
{
	LaIntervalBound complete = *bound;

	if (complete.text == NULL)
		complete.text = la_sql_argument_text_of(bound->value, key_type);
	return complete;
}

/*
 * Whether steps can be counted from or to the value.
 */
bool
la_interval_grid_is_finite(Oid key_type, const LaIntervalBound *bound)
{
	switch (key_type)
	{
		case DATEOID:
			return !DATE_NOT_FINITE(DatumGetDateADT(bound->value));
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return !TIMESTAMP_NOT_FINITE(DatumGetTimestamp(bound->value));
		case NUMERICOID:
			return !numeric_is_nan(DatumGetNumeric(bound->value)) &&
				!numeric_is_inf(DatumGetNumeric(bound->value));
		default:
			return true;
	}
}

int
la_interval_grid_compare(const LaIntervalGrid *grid, const LaIntervalBound *a,
						 const LaIntervalBound *b)
{
	return DatumGetInt32(FunctionCall2Coll(unconstify(FmgrInfo *, &grid->compare),
										   grid->collation, a->value, b->value));
}

/*
 * The segment of a value.
 */
static int
find_segment(const LaIntervalGrid *grid, const LaIntervalBound *value)
{
	int			i = grid->count - 1;

	while (i > 0 &&
		   la_interval_grid_compare(grid, &grid->segments[i].start, value) > 0)
		i--;
	return i;
}

/*
 * Whether the range that has this value has no upper bound, since the type of the key ends.
 */
bool
la_interval_grid_ends(const LaIntervalGrid *grid, const LaIntervalBound *value)
{
	int			i = find_segment(grid, value);
	const LaPartitionSeries *series = grid->segments[i].series;

	return i == grid->count - 1 &&
		!la_partition_series_has(series,
								 la_partition_series_find(series, value->text) + 1);
}

/*
 * The range that has this value, which is finite.
 */
LaIntervalRange
la_interval_grid_find(const LaIntervalGrid *grid, const LaIntervalBound *value)
{
	LaIntervalRange range = {.is_whole = true};
	int			i = find_segment(grid, value);
	const LaIntervalSegment *segment = &grid->segments[i];
	bool		is_last = i == grid->count - 1;

	range.series = segment->series;
	range.number = la_partition_series_find(range.series, value->text);
	range.lower = la_interval_grid_bound(grid,
										 la_partition_series_bound(range.series, range.number));
	/* A uuid has more digits than the time in it. */
	if (i > 0 && la_interval_grid_compare(grid, &range.lower, &segment->start) < 0)
	{
		range.lower = segment->start;
		range.is_whole = false;
	}

	/*
	 * A segment may begin before the type ends, and the last bound of the one
	 * before after it.
	 */
	if (is_last || la_partition_series_has(range.series, range.number + 1))
		range.upper = la_interval_grid_bound(grid,
											 la_partition_series_bound(range.series, range.number + 1));
	if (!is_last &&
		(!la_partition_series_has(range.series, range.number + 1) ||
		 la_interval_grid_compare(grid, &segment[1].start, &range.upper) < 0))
	{
		range.upper = segment[1].start;
		range.is_whole = false;
	}
	return range;
}
