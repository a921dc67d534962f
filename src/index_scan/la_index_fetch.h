/*-------------------------------------------------------------------------
 *
 * la_index_fetch.h
 *	  our IndexFetchTableData, which wraps the heap AM's
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INDEX_FETCH_H
#define LA_INDEX_FETCH_H

#include "access/relscan.h"
#include "executor/tuptable.h"
#include "storage/buf.h"

#include "attach/la_registry.h"

struct LaTidRing;

/*
 * State of one index scan that we execute; IndexScanDesc.xs_heapfetch points
 * to it.
 */
typedef struct LaIndexFetch
{
	IndexFetchTableData base;	/* base.rel is the shadow relation */
	IndexFetchTableData *inner; /* the heap AM's own, which fetches rows */
	IndexScanDesc scan;
	LaNode	   *node;
	MemoryContext context;		/* of the query */
	uint32		entries_taken;	/* index entries since the scan (re)started */
	bool		streaming;		/* does the ring deliver, not core? */
	struct LaTidRing *ring;		/* NULL until the scan is long enough */
} LaIndexFetch;

extern LaIndexFetch *la_index_fetch_of(IndexScanDesc scan);
extern LaIndexFetch *la_index_fetch_wrap(IndexScanDesc scan, LaNode *node);
extern bool la_index_fetch_next(LaIndexFetch *fetch, ScanDirection direction,
								TupleTableSlot *slot);
extern void la_index_fetch_take_pin(LaIndexFetch *fetch, Buffer buffer);
extern void la_index_fetch_release_pin(LaIndexFetch *fetch);
extern void la_index_fetch_distrust(void);
extern bool la_index_fetch_distrusted(void);

#endif							/* LA_INDEX_FETCH_H */
