/*-------------------------------------------------------------------------
 *
 * la_tid_ring.h
 *	  index entries read ahead, and the read stream over their table pages
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_TID_RING_H
#define LA_TID_RING_H

#include "executor/tuptable.h"
#include "access/sdir.h"

#include "index_scan/la_index_fetch.h"

typedef struct LaTidRing LaTidRing;

extern LaTidRing *la_tid_ring_create(LaIndexFetch *fetch);
extern void la_tid_ring_start(LaTidRing *ring, ScanDirection direction);
extern bool la_tid_ring_next(LaTidRing *ring, ScanDirection direction,
							 TupleTableSlot *slot);
extern void la_tid_ring_reset(LaTidRing *ring);
extern void la_tid_ring_free(LaTidRing *ring);
extern bool la_tid_ring_affordable(const LaQuery *query);
extern bool la_tid_ring_crowded(const LaQuery *query);

#endif							/* LA_TID_RING_H */
