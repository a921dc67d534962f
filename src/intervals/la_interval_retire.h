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

extern List *la_interval_retire_list(const LaIntervalPolicy *policy,
									 TimestampTz now);
extern void la_interval_retire_begin(const LaIntervalPolicy *policy,
									 Oid partition, TimestampTz now);
extern ErrorData *la_interval_retire_end(const LaIntervalPolicy *policy,
										 Oid partition, TimestampTz now);

#endif							/* LA_INTERVAL_RETIRE_H */
