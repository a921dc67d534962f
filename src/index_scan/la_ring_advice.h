/*-------------------------------------------------------------------------
 *
 * la_ring_advice.h
 *	  has the pages of a ring's entries read by advice to the kernel
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_RING_ADVICE_H
#define LA_RING_ADVICE_H

#include "index_scan/la_ring_reader.h"

extern const LaRingReader la_ring_advice;

#endif							/* LA_RING_ADVICE_H */
