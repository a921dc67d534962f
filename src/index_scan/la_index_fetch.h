/*-------------------------------------------------------------------------
 *
 * la_index_fetch.h
 *	  our IndexFetchTableData, which wraps the heap AM's
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INDEX_FETCH_H
#define LA_INDEX_FETCH_H

#include "access/genam.h"
#include "access/relscan.h"
#include "executor/tuptable.h"

#include "attach/la_registry.h"
#include "index_scan/la_ring.h"

struct LaIndexPeek;

/*
 * State of one index scan that is awake, or of an index-only scan;
 * IndexScanDesc.xs_heapfetch points to it.
 */
typedef struct LaIndexFetch
{
	IndexFetchTableData base;	/* base.rel is the shadow relation */
	IndexFetchTableData *inner; /* the heap AM's own, which fetches rows */
	IndexScanDesc scan;
	PlanState  *planstate;
	LaNode	   *node;			/* NULL until the node first woke */
	LaIndexFindings findings;

	/* While core's functions deliver; counts since the scan (re)started. */
	uint32		entries_taken;
	uint32		missed;			/* table pages that had to be read */
	bool		wants_ring;		/* pages are read from a device */
	struct LaIndexPeek *peek;	/* if they always do, or NULL */

	bool		looking_ahead;	/* does the ring deliver, not core? */
	bool		looked_ahead;	/* since the scan (re)started */
	LaTidRing  *ring;			/* NULL until it is wanted */
} LaIndexFetch;

extern LaIndexFetch *la_index_fetch_of(IndexScanDesc scan);
extern LaIndexFetch *la_index_fetch_wrap(IndexScanDesc scan,
										 PlanState *planstate);
extern LaIndexFetch *la_index_fetch_wake(IndexScanDesc scan,
										 PlanState *planstate);
extern bool la_index_fetch_next(LaIndexFetch *fetch, ScanDirection direction,
								TupleTableSlot *slot);

#endif							/* LA_INDEX_FETCH_H */
