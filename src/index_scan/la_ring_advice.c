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

#include "index_scan/la_index_feature.h"
#include "index_scan/la_ring_advice.h"
#include "prefetch/la_advice.h"
#include "prefetch/la_request.h"
#include "prefetch/la_wake.h"

/*
 * Table pages that are read on their turn before the scan looks ahead again,
 * where the kernel has been found to do better alone, and how often they are
 * doubled, when it is found so twice more.  Arbitrary, but that no more are
 * passed than were before.
 */
#define READS_TO_PASS 512
#define MOST_DOUBLED 4

/* One random stop in so many entries, with test_stop_seed. */
#define TEST_STOP_ONE_IN 16

/*
 * The ring starts from empty.
 */
void
la_ring_advice_start(LaTidRing *ring)
{
	LaAdvice   *advice = ring->advice;

	ring->advised = 0;
	ring->last_advised = InvalidBlockNumber;
	la_advice_start(advice,
					la_request_limit(advice->relation));
	la_residency_init(&advice->residency, advice->relation);
}

/*
 * Shall look-ahead stop here for the moment, for the sake of a test?
 */
static bool
stops_at_random(LaTidRing *ring)
{
#ifdef LA_TEST
	return la_test_stop_seed != 0 &&
		pg_prng_uint64_range(&ring->test_random, 1, TEST_STOP_ONE_IN) == 1;
#else
	return false;
#endif
}

/*
 * Gives advice for the entries after the next one, as far as the distance
 * allows and they are wanted.
 */
static void
advise_entries(LaTidRing *ring, BlockNumber current)
{
	uint64		wanted = la_registry_rows_wanted(ring->node);

	if (ring->advised <= ring->consumed)
	{
		ring->advised = ring->consumed + 1;
		ring->last_advised = current;
	}
	while (la_advice_wants_more(ring->advice))
	{
		BlockNumber block;

		if (ring->advised - ring->consumed >= wanted ||
			stops_at_random(ring) ||
			(ring->advised == ring->filled && !la_ring_fill(ring)))
		{
			la_advice_flush(ring->advice);
			return;
		}
		block = ItemPointerGetBlockNumber(&la_ring_entry(ring, ring->advised)->tid);
		if (block != ring->last_advised)
		{
			la_advice_add(ring->advice, block, ring->advised);
			ring->last_advised = block;
		}
		ring->advised++;
	}
}

/*
 * The row of the next entry, which is on another page than the one before, is
 * about to be fetched.
 */
void
la_ring_advice_before_fetch(LaTidRing *ring, const LaTidEntry *entry)
{
	LaCounters *counters = &ring->node->counters;

	if (ring->consumed < ring->advised)
	{
		uint32		distance = ring->advice->in_flight_count;

		counters->prefetched++;
		counters->distance_sum += distance;
		counters->distance_max = Max(counters->distance_max, distance);
	}
	else
		counters->direct++;

	if (la_advice_turn(ring->advice, ring->consumed) &&
		(!ring->advice->kernel_leads || la_wake_forced()))
		advise_entries(ring, ItemPointerGetBlockNumber(&entry->tid));
	else
		ring->draining = true;
}

/*
 * The scan goes on through core's functions: notes in ring->findings what has
 * been found out.
 */
void
la_ring_advice_hand_back(LaTidRing *ring)
{
	ring->findings->residency = ring->advice->residency;
	if (ring->advice->kernel_leads && !la_wake_forced())
		ring->findings->reads_to_pass = READS_TO_PASS << Min(ring->findings->passed++ / 2, MOST_DOUBLED);
	else
		ring->findings->passed = 0;
}
