/*-------------------------------------------------------------------------
 *
 * la_ring.h
 *	  the ring of index entries that an index scan has read ahead
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_RING_H
#define LA_RING_H

#include "access/genam.h"
#include "access/relscan.h"
#include "access/sdir.h"
#include "common/pg_prng.h"

#include "attach/la_registry.h"
#include "index_scan/la_leaf_queue.h"
#include "prefetch/la_advice.h"
#include "prefetch/la_residency.h"
#include "prefetch/la_wake.h"

/*
 * What an index scan finds out while it is awake, whoever delivers its rows: core's functions
 * or a ring.
 */
typedef struct LaIndexFindings
{
	LaWake		wake;			/* looks at entries */
	LaResidency residency;		/* do pages come from a device? */
	uint32		reads_to_pass;	/* pages to be read before that counts */
	uint32		passed;			/* how often there were some, in a row */
	bool		lock_step;		/* dead entries of an AM that must be asked
								 * for one entry at a time: no ring */
} LaIndexFindings;

/*
 * consumed <= filled: counts of entries since the scan started to look ahead, and
 * positions of the next one.
 */
typedef struct LaTidRing
{
	IndexScanDesc scan;
	IndexFetchTableData *heap_fetch;	/* of the heap AM, which fetches rows */
	LaNode	   *node;
	LaIndexFindings *findings;	/* of the scan */
	MemoryContext context;		/* of the query */
	ScanDirection direction;

	LaTidEntry *entries;
	uint32		capacity;		/* a power of two */
	uint64		consumed;
	uint64		filled;
	bool		exhausted;		/* the AM has no more entries */
	bool		draining;		/* it is not to be asked for more: the scan
								 * goes back to core */
	BlockNumber current_block;	/* page of the entry consumed last */
	const struct TableAmRoutine *heap;

	LaAdvice   *advice;
	uint64		advised;		/* entries before this one have been looked at */
	BlockNumber last_advised;

	/* Dead entries of a btree go by leaf, those of others one by one. */
	bool		is_btree;
	LaLeafQueue leaves;
	bool		prior_dead;		/* was the last entry consumed dead? */

#ifdef LA_TEST
	uint32		test_depth;
	pg_prng_state test_random;
#endif
} LaTidRing;

extern bool la_ring_affordable(const LaQuery *query);
extern void la_ring_take(LaTidRing *ring);
extern void la_ring_release(LaTidRing *ring);
extern bool la_ring_fill(LaTidRing *ring);

static inline LaTidEntry *
la_ring_entry(LaTidRing *ring, uint64 position)
{
	return &ring->entries[position & (ring->capacity - 1)];
}

#endif							/* LA_RING_H */
