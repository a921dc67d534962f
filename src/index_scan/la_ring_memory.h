/*-------------------------------------------------------------------------
 *
 * la_ring_memory.h
 *	  memory of the rings of a statement
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_RING_MEMORY_H
#define LA_RING_MEMORY_H

#include "attach/la_registry.h"
#include "index_scan/la_ring_state.h"

extern bool la_ring_memory_affordable(const LaQuery *query);
extern bool la_ring_memory_crowded(const LaQuery *query);
extern void la_ring_memory_take(LaTidRing *ring);
extern bool la_ring_memory_grow(LaTidRing *ring);
extern void la_ring_memory_release(LaTidRing *ring);

#endif							/* LA_RING_MEMORY_H */
