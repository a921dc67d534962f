/*-------------------------------------------------------------------------
 *
 * la_interval_outlook.c
 *	  which of the partitions that a policy wants are missing
 *
 * Of keys of times the range in use is that of this moment.  Of numbers it is
 * the last partition into which somebody has put rows: what will come is after
 * it, whatever is in it, and no row has to be looked at.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "intervals/la_interval_outlook.h"

static int	find_edge(LaIntervalOutlook *outlook,
					  const LaIntervalPolicy *policy, TimestampTz now);
static LaIntervalBound first_of_unused(const LaIntervalOutlook *outlook,
									   const LaIntervalPolicy *policy);
static bool is_covered(LaIntervalOutlook *outlook, LaIntervalBound *at,
					   const LaIntervalRange *range);

/*
 * Looks at a table that la_interval_grid_open() has opened.
 */
void
la_interval_outlook_take(LaIntervalOutlook *outlook,
						 const LaIntervalPolicy *policy, Relation parent,
						 TimestampTz now)
{
	LaIntervalBound at;

	memset(outlook, 0, sizeof(*outlook));
	outlook->grid = la_interval_grid_make(policy, parent);
	outlook->partitions = la_interval_partitions_read(parent);
	outlook->ahead = find_edge(outlook, policy, now);
	if (outlook->is_open)
	{
		outlook->ahead = policy->premake;
		return;
	}
	for (at = outlook->edge; outlook->ahead < policy->premake; outlook->ahead++)
	{
		LaIntervalRange range = la_interval_grid_find(outlook->grid, &at);

		if (!is_covered(outlook, &at, &range))
			return;
		at = range.upper;
	}
}

/*
 * Returns how many ranges of those that are counted are before the one that
 * has the edge: none, or none and not even the one in use.
 */
static int
find_edge(LaIntervalOutlook *outlook, const LaIntervalPolicy *policy,
		  TimestampTz now)
{
	const LaIntervalGrid *grid = outlook->grid;
	const LaIntervalPartition *used;

	if (la_interval_grid_is_time(grid->key_type))
	{
		outlook->edge = la_interval_grid_bound(grid,
											   la_partition_series_at_moment(grid->key_type, now));
		return -1;
	}
	used = la_interval_partitions_last_used(outlook->partitions);
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
 * Whether all of the range from a value on is in partitions; else notes what
 * is missing of it first.
 */
static bool
is_covered(LaIntervalOutlook *outlook, LaIntervalBound *at,
		   const LaIntervalRange *range)
{
	const LaIntervalGrid *grid = outlook->grid;

	while (la_interval_grid_compare(grid, at, &range->upper) < 0)
	{
		const LaIntervalPartition *partition;

		outlook->missing = *range;
		partition = la_interval_partitions_find(outlook->partitions, grid, at,
												&outlook->missing);
		if (partition == NULL)
		{
			outlook->is_missing = true;
			return false;
		}
		if (!partition->has_upper)
			return true;
		*at = partition->upper;
	}
	return true;
}
