/*-------------------------------------------------------------------------
 *
 * la_request.c
 *	  one request to the kernel to read pages ahead
 *
 * All scans ask here, however they choose what to ask for, so that each request
 * is counted, and watched for whether it was of use (la_residency.c), in one way.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/rel.h"

#include "prefetch/la_request.h"

static bool initiate(Relation relation, const LaRange *range);

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
