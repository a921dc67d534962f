/*-------------------------------------------------------------------------
 *
 * la_interval_outlook.h
 *	  which of the partitions that a policy wants are missing
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_OUTLOOK_H
#define LA_INTERVAL_OUTLOOK_H

#include "intervals/la_interval_partitions.h"

typedef struct LaIntervalOutlook
{
	LaIntervalGrid *grid;
	LaIntervalPartitions *partitions;
	LaIntervalBound edge;		/* a value: partitions are wanted from here on */
	const LaIntervalPartition *locked;	/* one that may be the last one in
										 * use, which is not known then; or
										 * NULL */
	bool		is_open;		/* the last partition in use has no upper
								 * bound */
	int			ahead;			/* ranges after the one in use that are there
								 * without a gap, at most as many as wanted;
								 * -1 if the one in use is not */
	const char *why;			/* no more are missing: the type of the key
								 * ends, or others are before that one; or
								 * NULL */
	List	   *missing;		/* series of ranges that are, in their order */
	char	   *wanted;			/* where the first one begins, or NULL */
} LaIntervalOutlook;

extern void la_interval_outlook_take(LaIntervalOutlook *outlook,
									 const LaIntervalPolicy *policy,
									 Relation parent, TimestampTz now);

#endif							/* LA_INTERVAL_OUTLOOK_H */
