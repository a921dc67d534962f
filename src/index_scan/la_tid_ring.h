/*-------------------------------------------------------------------------
 *
 * la_tid_ring.h
 *	  rows of an index scan that looks ahead
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_TID_RING_H
#define LA_TID_RING_H

#include "access/genam.h"
#include "access/relscan.h"
#include "access/sdir.h"
#include "executor/tuptable.h"

#include "attach/la_registry.h"
#include "index_scan/la_ring.h"

extern LaTidRing *la_tid_ring_create(IndexScanDesc scan,
									 IndexFetchTableData *heap_fetch,
									 LaNode *node,
									 LaIndexFindings *findings);
extern void la_tid_ring_start(LaTidRing *ring, ScanDirection direction);
extern bool la_tid_ring_next(LaTidRing *ring, ScanDirection direction,
							 TupleTableSlot *slot);
extern bool la_tid_ring_drained(const LaTidRing *ring);
extern void la_tid_ring_hand_back(LaTidRing *ring);
extern void la_tid_ring_reset(LaTidRing *ring);
extern void la_tid_ring_free(LaTidRing *ring);

#endif							/* LA_TID_RING_H */
