/*-------------------------------------------------------------------------
 *
 * la_request.c
 *	  one request to the kernel to read pages ahead
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

#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "storage/smgr.h"
#include "utils/rel.h"

#include "prefetch/la_request.h"

static bool initiate(Relation relation, const LaRange *range);

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
