/*-------------------------------------------------------------------------
 *
 * la_distance.c
 *	  how many requests a scan may have in flight
 *
 * What a setting says, else the device's profile, else what was best on the devices
 * measured.  Up to that limit the control of la_advice.c, or the stream's own, goes
 * step by step.  Sequential and TID range scans have a rule of their own, of
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
#include "prefetch/la_transport.h"

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
 * Requests in flight of a stream for a query whose rows are fetched a few at a
 * time.  The stream pins one page more than this, and the current row one: 9 in
 * all while the query stands idle.  Advice pins nothing.
 */
#define PARTIAL_FETCH_DISTANCE 7

/*
 * How many requests a scan of a relation may have in flight.
 */
int
la_distance_limit(Relation relation, bool partial_fetch)
{
	int			distance = la_prefetch_distance;
	const LaDeviceProfile *profile;

	if (distance == 0)
	{
		profile = la_profile_for_tablespace(relation->rd_locator.spcOid);
		distance = profile != NULL ? Max(profile->depth, MIN_DISTANCE) :
			Max(effective_io_concurrency, AUTOMATIC_DISTANCE);
	}
	if (partial_fetch && la_transport_choose() == LA_TRANSPORT_STREAM)
		distance = Min(distance, PARTIAL_FETCH_DISTANCE);
	return distance;
}
