/*-------------------------------------------------------------------------
 *
 * la_interval_drain_list.h
 *	  which ranges of a policy the default partition has rows of
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_DRAIN_LIST_H
#define LA_INTERVAL_DRAIN_LIST_H

#include "intervals/la_interval_grid.h"
#include "intervals/la_interval_partitions.h"

/* A range that no partition has. */
typedef struct LaIntervalDrained
{
	LaIntervalRange range;
	char	   *value;			/* one that a row has */
	bool		is_far;			/* too far for a partition that rows ask for */
} LaIntervalDrained;

typedef struct LaIntervalDrainList
{
	LaIntervalDrained *ranges;	/* in ascending order */
	int			count;
	int			size;
	int64		far;			/* rows that are too far from other partitions */
	int64		without;		/* rows that no range has: null, infinite,
								 * beyond the last one */
} LaIntervalDrainList;

extern bool la_interval_drain_find(const LaIntervalPolicy *policy,
								   const LaIntervalGrid *grid,
								   const LaIntervalPartitions *all,
								   const LaIntervalBound *value,
								   LaIntervalDrained *drained);
extern void la_interval_drain_list(LaIntervalDrainList *list,
								   const LaIntervalPolicy *policy,
								   Oid default_partition);

#endif							/* LA_INTERVAL_DRAIN_LIST_H */
