/*-------------------------------------------------------------------------
 *
 * la_interval_old.c
 *	  which partitions a policy keeps no longer
 *
 * Of keys of times those are old whose upper bound is as long ago as the
 * policy says; of numbers those whose upper bound is as far below the last
 * partition that has a row.  So a partition is old as a whole or not at all.  The default
 * partition never is, nor one without an upper bound.
 *
 * All partitions are read once, for the list.  Whoever takes one out asks again
 * under its lock, with a snapshot that was taken since: about this partition's bound, and of
 * numbers about the row that makes it old.
 *
 * Always as the table's owner, in the policy's time zone.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "intervals/la_interval_old.h"
#include "la_sql_function.h"

static void
refuse_retention(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"%s\" must be finite and greater than zero",
					"retention")));
}

/*
 * How long partitions of times are kept.  Of a row that came by another way than
 * pg_lookahead_set_interval(), too.
 */
static Interval *
read_length(const LaIntervalPolicy *policy)
{
	Interval   *length = la_sql_argument_interval(policy->retention, "retention");

	if (INTERVAL_NOT_FINITE(length) ||
		length->month < 0 || length->day < 0 || length->time < 0 ||
		(length->month == 0 && length->day == 0 && length->time == 0))
		refuse_retention();
	return length;
}

/*
 * How far below the last one those of numbers are.
 */
static Numeric
read_distance(const LaIntervalPolicy *policy)
{
	Numeric		distance = DatumGetNumeric(la_sql_argument_numeric(policy->retention));

	if (numeric_is_nan(distance) || numeric_is_inf(distance) ||
		!DatumGetBool(DirectFunctionCall2(numeric_gt, NumericGetDatum(distance),
										  NumericGetDatum(int64_to_numeric(0)))))
		refuse_retention();
	return distance;
}

/*
 * The source is that of numbers, or NULL.
 */
static void
find_limit(LaIntervalLimit *limit, const LaIntervalPolicy *policy,
		   const LaIntervalGrid *grid, const LaIntervalPartition *source,
		   TimestampTz now)
{
	memset(limit, 0, sizeof(*limit));
	limit->is_time = la_interval_grid_is_time(grid->key_type);
	if (limit->is_time)
	{
		Datum		moment = DirectFunctionCall2(timestamptz_mi_interval,
												 TimestampTzGetDatum(now),
												 IntervalPGetDatum(read_length(policy)));

		limit->exists = true;
		limit->time = la_interval_grid_bound(grid,
											 la_partition_series_at_moment(grid->key_type,
																		   DatumGetTimestampTz(moment)));
		return;
	}
	if (source == NULL || !source->has_lower ||
		!la_interval_grid_is_finite(grid->key_type, &source->lower))
		return;
	limit->exists = true;
	limit->number = DirectFunctionCall2(numeric_sub,
										la_sql_argument_numeric(la_interval_grid_complete(grid->key_type, &source->lower).text),
										NumericGetDatum(read_distance(policy)));
}

static bool
is_old(const LaIntervalLimit *limit, const LaIntervalGrid *grid,
	   const LaIntervalPartition *partition)
{
	if (!limit->exists || !partition->has_upper)
		return false;
	if (limit->is_time)
		return la_interval_grid_compare(grid, &partition->upper,
										&limit->time) <= 0;
	return DatumGetBool(DirectFunctionCall2(numeric_le,
											la_sql_argument_numeric(la_interval_grid_complete(grid->key_type, &partition->upper).text),
											limit->number));
}

/*
 * Upper bounds up to here are old.
 */
static char *
text_of(const LaIntervalLimit *limit)
{
	return limit->is_time ? limit->time.text
		: DatumGetCString(DirectFunctionCall1(numeric_out, limit->number));
}

static void
add_old(LaIntervalOldList *list, const LaIntervalGrid *grid,
		const LaIntervalPartition *partition)
{
	LaIntervalOld *old = &list->partitions[list->count++];

	old->relation = partition->relation;
	old->lower = !partition->has_lower ? NULL
		: la_interval_grid_complete(grid->key_type, &partition->lower).text;
	old->upper = la_interval_grid_complete(grid->key_type, &partition->upper).text;
}

static const LaIntervalPartition *
find_source(LaIntervalSource *source, const LaIntervalGrid *grid,
			const LaIntervalPartitions *all)
{
	const LaIntervalPartition *last = la_interval_grid_is_time(grid->key_type) ? NULL
		: la_interval_partitions_last_filled(all, &source->row);

	source->partition = last == NULL ? InvalidOid : last->relation;
	return last;
}

/*
 * Looks for what makes others old, if the policy has a retention and a key of numbers.
 */
void
la_interval_old_find_source(LaIntervalSource *source, const LaIntervalPolicy *policy)
{
	Relation	parent;

	source->partition = InvalidOid;
	if (policy->retention == NULL)
		return;
	parent = la_interval_grid_open(policy->parent);
	(void) find_source(source, la_interval_grid_make(policy, parent),
					   la_interval_partitions_read(parent));
	table_close(parent, AccessShareLock);
}

/*
 * Looks for another row if the one that was found is gone.
 */
void
la_interval_old_renew_source(LaIntervalSource *source, const LaIntervalPolicy *policy)
{
	LaIntervalPartition partition;

	if (OidIsValid(source->partition) &&
		!la_interval_old_is_source(policy->parent, source, &partition))
		la_interval_old_find_source(source, policy);
}

/*
 * Whether the row is there for the active snapshot; then the partition.
 */
bool
la_interval_old_is_source(Oid parent, const LaIntervalSource *source,
						  LaIntervalPartition *partition)
{
	return la_interval_partitions_read_one(parent, source->partition, partition) &&
		la_interval_partitions_has_still(source->partition, &source->row);
}

/*
 * The partitions that are old.
 */
LaIntervalOldList *
la_interval_old_list(const LaIntervalPolicy *policy, TimestampTz now)
{
	LaIntervalOldList *list = palloc0_object(LaIntervalOldList);
	Relation	parent;
	LaIntervalGrid *grid;
	LaIntervalPartitions *all;
	LaIntervalLimit limit;

	if (policy->retention == NULL)
		return list;
	parent = la_interval_grid_open(policy->parent);
	grid = la_interval_grid_make(policy, parent);
	all = la_interval_partitions_read(parent);
	find_limit(&limit, policy, grid, find_source(&list->source, grid, all), now);
	if (limit.exists)
		list->limit = text_of(&limit);
	list->partitions = palloc_array(LaIntervalOld, Max(all->count, 1));
	for (int i = 0; i < all->count; i++)
	{
		if (!is_old(&limit, grid, &all->partitions[i]))
			break;
		add_old(list, grid, &all->partitions[i]);
	}
	table_close(parent, AccessShareLock);
	return list;
}

/*
 * Whether a partition of such a list is old for the active snapshot, too, and by the
 * clock of now as by that of the list.  It is locked, and so is the parent.
 */
bool
la_interval_old_still(const LaIntervalPolicy *policy, const LaIntervalSource *source,
					  Oid partition, TimestampTz now)
{
	Relation	parent;
	LaIntervalGrid *grid;
	LaIntervalPartition here;
	LaIntervalPartition last;
	LaIntervalLimit limit = {0};

	if (policy->retention == NULL)
		return false;
	parent = la_interval_grid_open(policy->parent);
	grid = la_interval_grid_make(policy, parent);
	if (la_interval_grid_is_time(grid->key_type))
		find_limit(&limit, policy, grid, NULL, Min(now, GetCurrentTimestamp()));
	else if (la_interval_old_is_source(policy->parent, source, &last))
		find_limit(&limit, policy, grid, &last, now);
	table_close(parent, AccessShareLock);
	return la_interval_partitions_read_one(policy->parent, partition, &here) &&
		is_old(&limit, grid, &here);
}

/*
 * Whether a range would be old by now, if it became a partition, and of numbers if this one had
 * a row; NULL where there is none.  Then *limit is where what is old ends.
 */
bool
la_interval_old_has(const LaIntervalPolicy *policy, const LaIntervalGrid *grid,
					const LaIntervalRange *range, const LaIntervalPartition *source,
					const char **limit)
{
	LaIntervalPartition partition = {.has_upper = true,.upper = range->upper};
	LaIntervalLimit found;

	find_limit(&found, policy, grid, source, GetCurrentTimestamp());
	if (!is_old(&found, grid, &partition))
		return false;
	*limit = text_of(&found);
	return true;
}

/*
 * Whether a range would stay if it became a partition with rows: it is not old, and, of numbers, it
 * ends before the last partition with a row begins.  Behind that it would make others old.
 *
 * What is not known counts against it.  So old is what the last of all partitions makes old, which
 * may be empty: nobody can say whether one that somebody has locked has a row.
 *
 * Of numbers, filled is the last partition with a row, or NULL.
 */
bool
la_interval_old_keeps_new(const LaIntervalPolicy *policy, const LaIntervalGrid *grid,
						  const LaIntervalPartitions *all, const LaIntervalRange *range,
						  const LaIntervalPartition *filled)
{
	const char *limit;

	if (policy->retention == NULL)
		return true;
	if (la_interval_old_has(policy, grid, range,
							all->count == 0 ? NULL : &all->partitions[all->count - 1], &limit))
		return false;
	if (la_interval_grid_is_time(grid->key_type))
		return true;
	return filled != NULL && filled->has_lower &&
		la_interval_grid_compare(grid, &range->upper, &filled->lower) <= 0;
}

/*
 * Refuses a retention from which no limit can be computed.
 */
void
la_interval_old_check(const LaIntervalPolicy *policy, Oid key_type)
{
	if (la_interval_grid_is_time(key_type))
		(void) DirectFunctionCall2(timestamptz_mi_interval,
								   TimestampTzGetDatum(GetCurrentTimestamp()),
								   IntervalPGetDatum(read_length(policy)));
	else
		(void) read_distance(policy);
}
