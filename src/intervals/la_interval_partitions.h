/*-------------------------------------------------------------------------
 *
 * la_interval_partitions.h
 *	  the partitions that a table has, by their bounds
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_PARTITIONS_H
#define LA_INTERVAL_PARTITIONS_H

#include "storage/itemptr.h"

#include "intervals/la_interval_grid.h"

/* A bound that is MINVALUE or MAXVALUE is none here. */
typedef struct LaIntervalPartition
{
	Oid			relation;
	bool		has_lower;
	bool		has_upper;
	LaIntervalBound lower;
	LaIntervalBound upper;
} LaIntervalPartition;

/* A row that was seen, by its place. */
typedef struct LaIntervalSeen
{
	Oid			table;
	ItemPointerData place;
} LaIntervalSeen;

typedef struct LaIntervalPartitions
{
	int			count;
	LaIntervalPartition *partitions;	/* in ascending order */
	Oid			default_partition;	/* or InvalidOid */
} LaIntervalPartitions;

/* Of numbers: where a range is, seen from the last partition in use. */
typedef enum LaIntervalPlace
{
	LA_PLACE_FOLLOWS,			/* before it, or after it without a gap */
	LA_PLACE_BEHIND_GAP,		/* to which maintenance never comes back */
	LA_PLACE_UNKNOWN			/* another one may be the last one in use */
} LaIntervalPlace;

extern LaIntervalPartitions *la_interval_partitions_read(Relation parent);
extern int	la_interval_partitions_search(const LaIntervalPartitions *all,
										  const LaIntervalGrid *grid,
										  const LaIntervalBound *value);
extern const LaIntervalPartition *la_interval_partitions_find(const LaIntervalPartitions *all,
															  const LaIntervalGrid *grid,
															  const LaIntervalBound *value,
															  LaIntervalRange *range);
extern const LaIntervalPartition *la_interval_partitions_last_used(const LaIntervalPartitions *all,
																   const LaIntervalPartition **maybe);
extern const LaIntervalPartition *la_interval_partitions_last_filled(const LaIntervalPartitions *all,
																	 LaIntervalSeen *row);
extern bool la_interval_partitions_has_still(Oid relation, const LaIntervalSeen *row);
extern bool la_interval_partitions_read_one(Oid parent, Oid relation,
											LaIntervalPartition *partition);
extern bool la_interval_partitions_is_used(Oid relation);
extern LaIntervalPlace la_interval_partitions_place(const LaIntervalPartitions *all,
													const LaIntervalGrid *grid,
													const LaIntervalRange *range,
													const LaIntervalPartition *last,
													const LaIntervalPartition *maybe);

#endif							/* LA_INTERVAL_PARTITIONS_H */
