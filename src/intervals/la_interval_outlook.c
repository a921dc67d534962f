/*-------------------------------------------------------------------------
 *
 * la_interval_outlook.c
 *	  which of the partitions that a policy wants are missing
 *
 * Of keys of times the range in use is that of this moment.  Of numbers it is
 * the last partition into which somebody has put rows: what will come is after
 * it, whatever is in it, and no row has to be looked at.  While one that may be it
 * is locked, nothing is missing before that: it could be in a gap.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "intervals/la_interval_outlook.h"

/*
 * Where the ranges of a table without rows begin: with the origin, or with the
 * first partition that retention has left.
 */
static LaIntervalBound
first_of_unused(const LaIntervalOutlook *outlook,
				const LaIntervalPolicy *policy)
{
	const LaIntervalGrid *grid = outlook->grid;
	const LaIntervalPartitions *all = outlook->partitions;
	LaIntervalBound first = la_interval_grid_bound(grid, policy->origin);

	if (all->count > 0 && all->partitions[0].has_lower &&
		la_interval_grid_is_finite(grid->key_type, &all->partitions[0].lower) &&
		la_interval_grid_compare(grid, &all->partitions[0].lower, &first) > 0)
		first = la_interval_grid_complete(grid->key_type,
										  &all->partitions[0].lower);
	return first;
}

/*
 * Finds the edge from which on ranges are wanted.  Returns the number of the first: 0, or -1
 * where the range in use counts as wanted, too.
 */
static int
find_edge(LaIntervalOutlook *outlook, const LaIntervalPolicy *policy,
		  TimestampTz now)
{
	const LaIntervalGrid *grid = outlook->grid;
	const LaIntervalPartition *used;
	const LaIntervalPartition *maybe;

	if (la_interval_grid_is_time(grid->key_type))
	{
		outlook->edge = la_interval_grid_bound(grid,
											   la_partition_series_at_moment(grid->key_type, now));
		return -1;
	}
	used = la_interval_partitions_last_used(outlook->partitions, &maybe);
	if (maybe != used)
		outlook->locked = maybe;
	if (used == NULL)
	{
		outlook->edge = first_of_unused(outlook, policy);
		return -1;
	}
	outlook->is_open = !used->has_upper ||
		!la_interval_grid_is_finite(grid->key_type, &used->upper);
	if (!outlook->is_open)
		outlook->edge = la_interval_grid_complete(grid->key_type, &used->upper);
	return 0;
}

/*
 * Whole ranges one after the other are one series, so that they can be created together.
 */
static void
add_missing(LaIntervalOutlook *outlook, const LaIntervalRange *range)
{
	LaPartitionSeries *last = outlook->missing == NIL ? NULL : llast(outlook->missing);

	if (outlook->wanted == NULL)
		outlook->wanted = range->lower.text;
	if (!range->is_whole)
		last = la_partition_series_between(range->series, range->lower.text,
										   range->upper.text);
	else if (last != NULL && last->grid == range->series &&
			 last->first + last->count == range->number)
	{
		last->count++;
		return;
	}
	else
		last = la_partition_series_part(range->series, range->number, 1);
	outlook->missing = lappend(outlook->missing, last);
}

/*
 * Whether what is missing is before a partition that may be the last one in use.
 */
static bool
may_be_in_gap(const LaIntervalOutlook *outlook, const LaIntervalRange *missing)
{
	const LaIntervalPartition *locked = outlook->locked;

	return locked != NULL &&
		(!locked->has_upper ||
		 la_interval_grid_compare(outlook->grid, &outlook->edge, &locked->upper) > 0 ||
		 la_interval_grid_compare(outlook->grid, &missing->lower, &locked->upper) < 0);
}

/*
 * Notes what no partition has of a range from a value on.
 */
static void
look_at(LaIntervalOutlook *outlook, LaIntervalBound at,
		const LaIntervalRange *range)
{
	const LaIntervalGrid *grid = outlook->grid;

	while (la_interval_grid_compare(grid, &at, &range->upper) < 0)
	{
		LaIntervalRange missing = *range;
		const LaIntervalPartition *partition =
			la_interval_partitions_find(outlook->partitions, grid, &at, &missing);

		if (partition == NULL)
		{
			if (may_be_in_gap(outlook, &missing))
				outlook->why = "a partition that may be the last one in use is locked";
			else
				add_missing(outlook, &missing);
			at = missing.upper;
		}
		else if (partition->has_upper)
			at = partition->upper;
		else
			return;
	}
}

/*
 * Looks at a table that la_interval_grid_open() has opened.
 */
void
la_interval_outlook_take(LaIntervalOutlook *outlook,
						 const LaIntervalPolicy *policy, Relation parent,
						 TimestampTz now)
{
	LaIntervalBound at;
	int			number;

	memset(outlook, 0, sizeof(*outlook));
	outlook->grid = la_interval_grid_make(policy, parent);
	outlook->partitions = la_interval_partitions_read(parent);
	number = outlook->ahead = find_edge(outlook, policy, now);
	if (outlook->is_open)
	{
		outlook->ahead = policy->premake;
		return;
	}
	for (at = outlook->edge; number < policy->premake; number++)
	{
		LaIntervalRange range;

		CHECK_FOR_INTERRUPTS();
		if (la_interval_grid_ends(outlook->grid, &at))
		{
			outlook->why = psprintf("the values of the key end after %s", at.text);
			return;
		}
		range = la_interval_grid_find(outlook->grid, &at);
		look_at(outlook, at, &range);
		if (outlook->missing == NIL)
			outlook->ahead++;
		at = range.upper;
	}
}
