/*-------------------------------------------------------------------------
 *
 * la_interval_old.h
 *	  which partitions a policy keeps no longer
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_OLD_H
#define LA_INTERVAL_OLD_H

#include "intervals/la_interval_partitions.h"

/* What partitions are compared with. */
typedef struct LaIntervalLimit
{
	bool		exists;
	bool		is_time;
	LaIntervalBound time;		/* upper bounds up to here are old */
	Datum		number;			/* the same, as numeric */
} LaIntervalLimit;

/*
 * Of numbers: the last partition with a row, which makes others old, and the row.  It is looked
 * for without a lock that others meet, and under one only pages near it are looked at.
 */
typedef struct LaIntervalSource
{
	Oid			partition;		/* or InvalidOid */
	LaIntervalSeen row;
} LaIntervalSource;

/* A partition that is old. */
typedef struct LaIntervalOld
{
	Oid			relation;
	char	   *lower;			/* bounds, NULL for MINVALUE */
	char	   *upper;
} LaIntervalOld;

/* Those of a table, the oldest first. */
typedef struct LaIntervalOldList
{
	int			count;
	LaIntervalOld *partitions;
	LaIntervalSource source;	/* that makes them old */
	char	   *limit;			/* upper bounds up to here are old; NULL if
								 * there is no limit */
} LaIntervalOldList;

extern LaIntervalOldList *la_interval_old_list(const LaIntervalPolicy *policy,
											   TimestampTz now);
extern void la_interval_old_find_source(LaIntervalSource *source,
										const LaIntervalPolicy *policy);
extern void la_interval_old_renew_source(LaIntervalSource *source,
										 const LaIntervalPolicy *policy);
extern bool la_interval_old_is_source(Oid parent, const LaIntervalSource *source,
									  LaIntervalPartition *partition);
extern bool la_interval_old_still(const LaIntervalPolicy *policy,
								  const LaIntervalSource *source,
								  Oid partition, TimestampTz now);
extern bool la_interval_old_has(const LaIntervalPolicy *policy, const LaIntervalGrid *grid,
								const LaIntervalRange *range,
								const LaIntervalPartition *source, const char **limit);
extern bool la_interval_old_keeps_new(const LaIntervalPolicy *policy, const LaIntervalGrid *grid,
									  const LaIntervalPartitions *all,
									  const LaIntervalRange *range,
									  const LaIntervalPartition *filled);
extern void la_interval_old_check(const LaIntervalPolicy *policy, Oid key_type);

#endif							/* LA_INTERVAL_OLD_H */
