/*-------------------------------------------------------------------------
 *
 * la_ring_stream.h
 *	  has the pages of a ring's entries read by a read stream
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_RING_STREAM_H
#define LA_RING_STREAM_H

#include "index_scan/la_ring_state.h"

typedef struct LaRingStream LaRingStream;

extern LaRingStream *la_ring_stream_create(LaTidRing *ring, int distance);
extern void la_ring_stream_start(LaTidRing *ring);
extern bool la_ring_stream_ready(LaTidRing *ring);
extern void la_ring_stream_before_fetch(LaTidRing *ring,
										const LaTidEntry *entry);
extern void la_ring_stream_after_fetch(LaTidRing *ring,
									   const LaTidEntry *entry);
extern void la_ring_stream_reset(LaTidRing *ring);
extern void la_ring_stream_free(LaTidRing *ring);

#endif							/* LA_RING_STREAM_H */
