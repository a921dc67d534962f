/*-------------------------------------------------------------------------
 *
 * la_interval_retire.h
 *	  takes partitions out of a table that its policy keeps no longer
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_RETIRE_H
#define LA_INTERVAL_RETIRE_H

#include "intervals/la_interval_policy.h"

/* What was done with a partition that might be old. */
typedef enum LaIntervalRetired
{
	LA_INTERVAL_KEPT,			/* it is not */
	LA_INTERVAL_MARKED,			/* is being detached */
	LA_INTERVAL_TO_BE_LOCKED,	/* cannot be, beside others */
	LA_INTERVAL_BUSY,			/* another one is being detached */
} LaIntervalRetired;

extern Oid	la_interval_retire_pending(Oid parent);
extern List *la_interval_retire_list(const LaIntervalPolicy *policy,
									 TimestampTz now);
extern LaIntervalRetired la_interval_retire_begin(const LaIntervalPolicy *policy,
												  Oid partition,
												  TimestampTz now);
extern void la_interval_retire_check_free(Oid partition);
extern void la_interval_retire_lock(Oid parent, Oid partition);
extern ErrorData *la_interval_retire_end(const LaIntervalPolicy *policy,
										 Oid partition, TimestampTz now);
extern bool la_interval_retire_is_old(const LaIntervalPolicy *policy,
									  Oid partition, TimestampTz now);

#endif							/* LA_INTERVAL_RETIRE_H */
