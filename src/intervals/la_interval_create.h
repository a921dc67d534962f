/*-------------------------------------------------------------------------
 *
 * la_interval_create.h
 *	  creates the partitions that a policy wants
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_CREATE_H
#define LA_INTERVAL_CREATE_H

#include "intervals/la_interval_policy.h"

typedef enum LaIntervalOutcome
{
	LA_INTERVAL_CREATED,
	LA_INTERVAL_PRESENT			/* somebody was faster */
} LaIntervalOutcome;

extern bool la_interval_create_next(const LaIntervalPolicy *policy,
									TimestampTz now);
extern LaIntervalOutcome la_interval_create_for(Oid parent, char *value);

#endif							/* LA_INTERVAL_CREATE_H */
