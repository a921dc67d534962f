/*-------------------------------------------------------------------------
 *
 * la_distance.c
 *	  how many requests a scan may have in flight
 *
 * What a setting says, else the device's profile, else what was best on the devices
 * measured.  Up to that limit the control of la_advice.c goes step by step.  Sequential scans have a rule of their own, of
 * requests that are larger and fewer (la_seq_scan.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "device/la_profile.h"
#include "prefetch/la_distance.h"
#include "prefetch/la_prefetch_settings.h"

/*
 * Requests in flight when pg_lookahead.prefetch_distance is 0, the device has no
 * profile, and effective_io_concurrency is not larger.  On the devices measured, 64 gains
 * another fifth over 16 and larger values hardly anything (docs/benchmarks.md).
 */
#define AUTOMATIC_DISTANCE 64

/*
 * Fewest requests in flight by a profile: a volume with a limit on requests gains
 * nothing by a second one, but the scan does, which has other work to do
 * meanwhile.  Arbitrary.
 */
#define MIN_DISTANCE 8

/*
 * How many requests a scan of a relation may have in flight.
 */
int
la_distance_limit(Relation relation)
{
	int			distance = la_prefetch_distance;
	const LaDeviceProfile *profile;

	if (distance != 0)
		return distance;
	profile = la_profile_for_tablespace(relation->rd_locator.spcOid);
	return profile != NULL ? Max(profile->depth, MIN_DISTANCE) :
		Max(effective_io_concurrency, AUTOMATIC_DISTANCE);
}
