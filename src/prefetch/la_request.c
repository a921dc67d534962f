/*-------------------------------------------------------------------------
 *
 * la_request.c
 *	  requests to the kernel to read pages ahead: each one, and how many there may be
 *
 * All scans ask here, however they choose what to ask for, so that each request
 * is counted, and watched for whether it was of use (la_residency.c), in one way.
 *
 * Core then reads each page on its turn, out of the cache of the operating system.
 * That is faster than asynchronous reads under every io_method
 * (docs/benchmarks.md): with worker, each page would be handed to another process and
 * back; with io_uring, completing a buffered read costs more than copying the page;
 * with sync, a read stream gives advice itself, but not where a tablespace sets
 * effective_io_concurrency to 0.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "storage/smgr.h"
#include "utils/rel.h"

#include "device/la_profile.h"
#include "prefetch/la_prefetch_settings.h"
#include "prefetch/la_request.h"

/*
 * Requests in flight when pg_lookahead.prefetch_distance is 0, the device has no
 * profile, and effective_io_concurrency is not larger.  On the devices measured, 64 gains
 * another fifth over 16 and larger values hardly anything (docs/benchmarks.md).
 */
#define AUTOMATIC_LIMIT 64

/*
 * Fewest requests in flight by a profile: a volume with a limit on requests gains
 * nothing by a second one, but the scan does, which has other work to do
 * meanwhile.  Arbitrary.
 */
#define LEAST_LIMIT 8

/*
 * Can the kernel be asked at all?  Not with direct I/O, which passes by its cache,
 * nor where there is no posix_fadvise().  Depends on settings that only a restart of
 * the server changes.
 */
bool
la_request_possible(void)
{
#ifdef USE_PREFETCH
	return (io_direct_flags & IO_DIRECT_DATA) == 0;
#else
	return false;
#endif
}

/*
 * How many requests a scan of a relation may have in flight: what a setting says, else the
 * device's profile, else what was best on the devices measured.  Up to that limit the control
 * of la_advice.c goes step by step.  Sequential scans have a rule of their own, of
 * requests that are larger and fewer (la_seq_scan.c).
 */
int
la_request_limit(Relation relation)
{
	int			limit = la_prefetch_distance;
	const LaDeviceProfile *profile;

	if (limit != 0)
		return limit;
	profile = la_profile_for_tablespace(relation->rd_locator.spcOid);
	return profile != NULL ? Max(profile->depth, LEAST_LIMIT) :
		Max(effective_io_concurrency, AUTOMATIC_LIMIT);
}

/*
 * Has a page to be read, because it is not in shared buffers?  Nothing is pinned, so the answer
 * may be wrong a moment later: it decides what is asked for, and nothing else.  Mirrors the
 * first half of PrefetchSharedBuffer() in bufmgr.c, whose second half asks for one page at once.
 */
bool
la_request_is_needed(Relation relation, BlockNumber block)
{
	BufferTag	tag;
	uint32		hash;
	LWLock	   *partition_lock;
	int			buffer;

	if (RelationUsesLocalBuffers(relation))
		return true;
	InitBufferTag(&tag, &relation->rd_locator, MAIN_FORKNUM, block);
	hash = BufTableHashCode(&tag);
	partition_lock = BufMappingPartitionLock(hash);
	LWLockAcquire(partition_lock, LW_SHARED);
	buffer = BufTableLookup(&tag, hash);
	LWLockRelease(partition_lock);
	return buffer < 0;
}

/*
 * Tells the kernel.  Returns false when it was not told: a single page of a
 * temporary table is in local buffers, or in recovery the file is gone.  A page
 * that was not asked for is read on its turn all the same.
 */
static bool
initiate(Relation relation, const LaRange *range)
{
#ifdef USE_PREFETCH
	if (range->nblocks > 1 || !RelationUsesLocalBuffers(relation))
		return smgrprefetch(RelationGetSmgr(relation), MAIN_FORKNUM,
							range->first, range->nblocks);
#endif
	return PrefetchBuffer(relation, MAIN_FORKNUM, range->first).initiated_io;
}

/*
 * Asks the kernel for a range of pages.
 */
void
la_request_make(Relation relation, const LaRange *range,
				LaResidency *residency, LaCounters *counters)
{
	if (!initiate(relation, range))
		return;
	counters->requests++;
	counters->advised += range->wanted;
	counters->bridged += range->nblocks - range->wanted;
	if (la_residency_asked(residency))
		counters->pauses++;
}

/*
 * The same.  Returns how many of the pages have to come from a device, which
 * the kernel counts while it is asked, and tells by a system call: 0 where it
 * does not count.
 */
int64
la_request_make_counted(Relation relation, const LaRange *range,
						LaResidency *residency, LaCounters *counters)
{
	bool		is_counted = la_residency_is_counted(relation);
	int64		before = is_counted ? la_residency_device_pages() : 0;

	la_request_make(relation, range, residency, counters);
	return is_counted ? Min(la_residency_device_pages() - before, range->nblocks) : 0;
}
