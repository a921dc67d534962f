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

#include "intervals/la_interval_policy.h"
#include "partitions/la_partition_create.h"

/* Partitions that a policy wants, to be created in batches. */
typedef struct LaIntervalWanted
{
	List	   *series;			/* that are missing */
	LaPartitionResult result;	/* of the first of them */
	int			batch;			/* how many may be created in a transaction */
	LOCKMODE	lock;			/* of the parent, for that */
	char	   *end;			/* where ranges end before what is wanted
								 * does, or NULL */
} LaIntervalWanted;

extern void la_interval_create_list(LaIntervalWanted *wanted,
									const LaIntervalPolicy *policy,
									TimestampTz now);
extern void la_interval_create_batch(LaIntervalWanted *wanted,
									 const LaIntervalPolicy *policy);
extern bool la_interval_create_pass_over(LaIntervalWanted *wanted,
										 const ErrorData *error);
extern bool la_interval_create_for(Oid parent, char *value);

#endif							/* LA_INTERVAL_CREATE_H */
