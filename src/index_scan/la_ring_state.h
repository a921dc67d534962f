/*-------------------------------------------------------------------------
 *
 * la_ring_state.h
 *	  the ring of index entries, for the files that work on it: la_tid_ring.c
 *	  fills and consumes it, la_ring_advice.c or la_ring_stream.c has the
 *	  pages read
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_RING_STATE_H
#define LA_RING_STATE_H

#include "access/sdir.h"
#include "common/pg_prng.h"

#include "index_scan/la_btree_kill.h"
#include "index_scan/la_index_fetch.h"
#include "index_scan/la_tid_entry.h"
#include "index_scan/la_tid_ring.h"

/*
 * consumed <= filled: counts of entries since the scan started to look ahead,
 * and positions of the next one.
 */
struct LaTidRing
{
	LaIndexFetch *fetch;
	ScanDirection direction;

	LaTidEntry *entries;
	uint32		capacity;		/* a power of two */
	uint32		max_capacity;
	uint64		consumed;
	uint64		filled;
	bool		exhausted;		/* the AM has no more entries */
	BlockNumber current_block;	/* page of the entry consumed last */
	const struct TableAmRoutine *heap;

	/* Dead entries of a btree go by leaf, those of others one by one. */
	bool		is_btree;
	LaLeafQueue leaves;
	bool		prior_dead;		/* was the last entry consumed dead? */
	bool		one_by_one;		/* dead entries were seen: no look-ahead */

	/* One of the two. */
	struct LaRingAdvice *advice;
	struct LaRingStream *stream;

	uint32		test_depth;
	pg_prng_state test_random;
};

extern bool la_tid_ring_fill(LaTidRing *ring);
extern bool la_tid_ring_stops_at_random(LaTidRing *ring);

static inline LaTidEntry *
la_tid_ring_entry(LaTidRing *ring, uint64 position)
{
	return &ring->entries[position & (ring->capacity - 1)];
}

#endif							/* LA_RING_STATE_H */
