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
#include "intervals/la_interval_old.h"
#include "intervals/la_interval_partitions.h"

/* Why a row stays. */
typedef enum LaIntervalStay
{
	LA_STAY_WITHOUT,			/* no range: null, infinite, beyond the last
								 * one */
	LA_STAY_FAR,				/* from other partitions */
	LA_STAY_OLD,				/* by the retention, or makes others old */
	LA_STAY_AWAY,				/* maintenance would go on from there */
	LA_STAY_UNKNOWN,			/* whether it would */
	LA_STAY_NOT
} LaIntervalStay;

/* The table, and what it is asked about. */
typedef struct LaIntervalDrainTable
{
	const LaIntervalPolicy *policy;
	Relation	parent;
	LaIntervalGrid *grid;
	LaIntervalPartitions *all;
	bool		has_filled;
	LaIntervalPartition filled; /* the last one with a row */
	bool		is_lost;		/* that row is gone */
} LaIntervalDrainTable;

/* A range that no partition has. */
typedef struct LaIntervalDrained
{
	char	   *value;			/* one that a row has */
	int64		rows;			/* that it has */
} LaIntervalDrained;

typedef struct LaIntervalDrainList
{
	List	   *ranges;			/* that rows can be moved to, in ascending
								 * order */
	int64		stay[LA_STAY_NOT];	/* rows that stay */
	bool		is_unused;		/* of numbers: no other partition can be in
								 * use */
} LaIntervalDrainList;

extern void la_interval_drain_open(LaIntervalDrainTable *table, const LaIntervalPolicy *policy,
								   const LaIntervalSource *source);
extern LaIntervalStay la_interval_drain_find(LaIntervalDrainTable *table,
											 const LaIntervalBound *key,
											 LaIntervalRange *range);
extern LaIntervalStay la_interval_drain_leads_away(const LaIntervalDrainTable *table,
												   const LaIntervalRange *range, bool is_unused);
extern void la_interval_drain_list(LaIntervalDrainList *list,
								   const LaIntervalPolicy *policy,
								   const LaIntervalSource *source,
								   Oid default_partition);

#endif							/* LA_INTERVAL_DRAIN_LIST_H */
