/*-------------------------------------------------------------------------
 *
 * la_ring_advice.h
 *	  has the pages of a ring's entries read by advice to the kernel
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_RING_ADVICE_H
#define LA_RING_ADVICE_H

#include "index_scan/la_ring.h"

extern void la_ring_advice_start(LaTidRing *ring);
extern void la_ring_advice_before_fetch(LaTidRing *ring,
										const LaTidEntry *entry);
extern void la_ring_advice_hand_back(LaTidRing *ring);

#endif							/* LA_RING_ADVICE_H */
