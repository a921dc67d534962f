/*-------------------------------------------------------------------------
 *
 * la_ring_stream.h
 *	  has the pages of a ring's entries read by a read stream
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_RING_STREAM_H
#define LA_RING_STREAM_H

#include "index_scan/la_ring_reader.h"

extern const LaRingReader la_ring_stream;

#endif							/* LA_RING_STREAM_H */
