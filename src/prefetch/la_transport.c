/*-------------------------------------------------------------------------
 *
 * la_transport.c
 *	  ways to have pages read before they are needed
 *
 * - Advice (la_advice.c): posix_fadvise() tells the kernel which pages are
 *   coming, and core reads each on its turn, from the OS page cache.  Faster
 *   than asynchronous reads under every io_method (docs/benchmarks.md): with
 *   worker, each page would be handed to another process and back; with
 *   io_uring, completing a buffered read costs more than copying the page; with
 *   sync, a read stream gives advice itself, but not where a tablespace sets
 *   effective_io_concurrency to 0.
 * - Asynchronous reads, by a read stream: the only way with direct I/O, or
 *   where there is no posix_fadvise().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "utils/rel.h"

#include "device/la_profile.h"
#include "la_guc.h"
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
 * Requests in flight for a query whose rows are fetched a few at a time.  A
 * stream pins one page more than this, and the current row one: 9 in all
 * while the query stands idle.
 */
#define PARTIAL_FETCH_DISTANCE 7

/*
 * The way to be used by a scan that starts now.  Depends on settings that only
 * a restart of the server changes.
 */
LaTransport
la_transport_choose(void)
{
#ifdef USE_PREFETCH
	if ((io_direct_flags & IO_DIRECT_DATA) == 0)
		return LA_TRANSPORT_ADVICE;
#endif
	return LA_TRANSPORT_STREAM;
}

/*
 * How many requests a scan of a relation may have in flight.
 */
int
la_transport_distance(Relation relation, bool partial_fetch)
{
	int			distance = la_prefetch_distance;
	const LaDeviceProfile *profile;

	if (distance == 0)
	{
		profile = la_profile_for_tablespace(relation->rd_locator.spcOid);
		distance = profile != NULL ? Max(profile->depth, MIN_DISTANCE) :
			Max(effective_io_concurrency, AUTOMATIC_DISTANCE);
	}
	return partial_fetch ? Min(distance, PARTIAL_FETCH_DISTANCE) : distance;
}
