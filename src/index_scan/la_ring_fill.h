/*-------------------------------------------------------------------------
 *
 * la_ring_fill.h
 *	  takes index entries from the index AM into a ring
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_RING_FILL_H
#define LA_RING_FILL_H

#include "index_scan/la_index_feature.h"
#include "index_scan/la_ring_state.h"

/* One random stop in so many entries, with test_stop_seed. */
#define LA_TEST_STOP_ONE_IN 16

extern bool la_ring_fill(LaTidRing *ring);

/*
 * Shall look-ahead stop here for the moment, for the sake of a test?
 */
static inline bool
la_ring_stops_at_random(LaTidRing *ring)
{
#ifdef LA_TEST
	return la_test_stop_seed != 0 &&
		pg_prng_uint64_range(&ring->test_random, 1, LA_TEST_STOP_ONE_IN) == 1;
#else
	return false;
#endif
}

#endif							/* LA_RING_FILL_H */
