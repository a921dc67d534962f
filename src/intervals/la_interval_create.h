/*-------------------------------------------------------------------------
 *
 * la_interval_create.h
 *	  creates the partitions that a policy wants
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_CREATE_H
#define LA_INTERVAL_CREATE_H

#include "storage/lockdefs.h"

#include "intervals/la_interval_partitions.h"
#include "intervals/la_interval_policy.h"
#include "partitions/la_partition_create.h"
#include "partitions/la_partition_plan.h"

/* Partitions that a policy wants, to be created in batches. */
typedef struct LaIntervalWanted
{
	List	   *series;			/* that are missing */
	LaPartitionResult result;	/* of the first of them */
	int			batch;			/* how many may be created in a transaction */
	LOCKMODE	lock;			/* of the parent, for that */
	const char *why;			/* no more are, or NULL */
} LaIntervalWanted;

extern void la_interval_create_find_missing(LaIntervalWanted *wanted,
											const LaIntervalPolicy *policy,
											TimestampTz now);
extern void la_interval_create_batch(LaIntervalWanted *wanted,
									 const LaIntervalPolicy *policy);
extern bool la_interval_create_pass_over(LaIntervalWanted *wanted,
										 const ErrorData *error);
extern bool la_interval_create_for(Oid parent, char *value);
extern bool la_interval_create_reaches(const LaIntervalPolicy *policy,
									   const LaIntervalGrid *grid,
									   const LaIntervalPartitions *all,
									   const LaIntervalBound *value);
extern const LaPlannedPartition *la_interval_create_plan(const LaIntervalPolicy *policy,
														 const LaIntervalRange *range);
extern void la_interval_create_range(const LaIntervalPolicy *policy,
									 const LaIntervalRange *range);

#endif							/* LA_INTERVAL_CREATE_H */
