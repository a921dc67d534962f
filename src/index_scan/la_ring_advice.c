/*-------------------------------------------------------------------------
 *
 * la_ring_advice.c
 *	  has the pages of a ring's entries read by advice to the kernel
 *
 *		consumed  <=  advised  <=  filled			(counts of entries)
 *
 * Each time the scan comes to another page, advice is given for entries after
 * it.  The page itself is read by the heap AM, as without us.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufmgr.h"
#include "storage/bufpage.h"

#include "index_scan/la_ring_advice.h"
#include "prefetch/la_advice.h"

/*
 * Entries from the one being fetched to the one whose row is brought to the
 * processor's caches: arbitrary, about a memory latency.
 */
#define ROWS_AHEAD 3

struct LaRingAdvice
{
	LaAdvice   *advice;
	uint64		advised;		/* entries before this one have been looked at */
	BlockNumber last_advised;
};

static void look_ahead(LaTidRing *ring, BlockNumber current);
static pg_attribute_always_inline void prefetch_row(LaTidRing *ring, uint64 position);

/*
 * Allocates in the current memory context.
 */
LaRingAdvice *
la_ring_advice_create(LaTidRing *ring)
{
	LaRingAdvice *state = palloc0_object(LaRingAdvice);

	state->advice = la_advice_create(ring->fetch->scan->heapRelation,
									 ring->fetch->context,
									 &ring->fetch->node->counters);
	return state;
}

/*
 * The ring starts from empty, with at most so many requests in flight.
 */
void
la_ring_advice_start(LaTidRing *ring, int distance)
{
	LaRingAdvice *state = ring->advice;

	state->advised = 0;
	state->last_advised = InvalidBlockNumber;
	la_advice_start(state->advice, distance);
}

/*
 * The row of the next entry, which is on another page than the one before, is
 * about to be fetched.
 */
void
la_ring_advice_next_page(LaTidRing *ring, const LaTidEntry *entry)
{
	LaRingAdvice *state = ring->advice;
	LaScanCounters *counters = &ring->fetch->node->counters;

	if (ring->consumed < state->advised)
	{
		uint32		distance = state->advice->in_flight_count;

		counters->prefetched++;
		counters->distance_sum += distance;
		counters->distance_max = Max(counters->distance_max, distance);
	}
	else
		counters->direct++;

	if (la_advice_turn(state->advice, ring->consumed))
		look_ahead(ring, ItemPointerGetBlockNumber(&entry->tid));
	prefetch_row(ring, ring->consumed + ROWS_AHEAD);
}

void
la_ring_advice_free(LaTidRing *ring)
{
	la_advice_free(ring->advice->advice);
	pfree(ring->advice);
}

/*
 * Gives advice for the entries after the next one, as far as the distance
 * allows and a Limit wants them.
 */
static void
look_ahead(LaTidRing *ring, BlockNumber current)
{
	LaRingAdvice *state = ring->advice;
	uint64		wanted = la_registry_rows_wanted(ring->fetch->node);

	if (state->advised <= ring->consumed)
	{
		state->advised = ring->consumed + 1;
		state->last_advised = current;
	}
	while (la_advice_wants_more(state->advice))
	{
		LaTidEntry *entry;
		BlockNumber block;

		if (state->advised - ring->consumed >= wanted ||
			la_tid_ring_stops_at_random(ring) ||
			(state->advised == ring->filled && !la_tid_ring_fill(ring)))
		{
			la_advice_flush(state->advice);
			return;
		}
		entry = la_tid_ring_entry(ring, state->advised);
		block = ItemPointerGetBlockNumber(&entry->tid);
		if (block != state->last_advised)
		{
			entry->seen_in = la_advice_add(state->advice, block, state->advised);
			state->last_advised = block;
		}
		state->advised++;
	}
}

/*
 * Brings the row of an entry to the processor's caches, when its page was seen
 * in shared buffers.  The buffer is not pinned and may have another page by
 * now.  So nothing depends on the line pointer but the address that is given
 * to the processor, which is kept within the page.  (Inlined: see la_advice.c.)
 */
static pg_attribute_always_inline void
prefetch_row(LaTidRing *ring, uint64 position)
{
	LaTidEntry *entry;
	char	   *page;
	ItemIdData	pointer;

	if (position >= ring->advice->advised)
		return;
	entry = la_tid_ring_entry(ring, position);
	if (!BufferIsValid(entry->seen_in))
		return;

	page = BufferGetBlock(entry->seen_in);
	pointer = ((PageHeader) page)->pd_linp[ItemPointerGetOffsetNumber(&entry->tid) - 1];
	__builtin_prefetch(page + (ItemIdGetOffset(&pointer) & (BLCKSZ - 1)));
}
