/*-------------------------------------------------------------------------
 *
 * la_index_fetch.c
 *	  our IndexFetchTableData, which wraps the heap AM's
 *
 * Rescan, parallel rescan, restore and end of an index scan all reach the
 * table AM: index_rescan(), index_parallelrescan(), index_restrpos() and
 * index_endscan() (src/backend/access/index/indexam.c) call
 * table_index_fetch_reset() or table_index_fetch_end() on
 * IndexScanDesc.xs_heapfetch before anything else, while the index AM still
 * stands on its leaf page.  Those find the AM's functions through
 * xs_heapfetch->rel->rd_tableam and look at nothing else of that relation.
 * So xs_heapfetch is made to point at a struct of ours whose rel is a shadow:
 * a RelationData in which only rd_tableam is set, to a copy of the heap AM's
 * routine with our functions in it.  Everything that a scan must not outlive
 * is released there, and no other interception is needed.
 *
 * The first entries of a scan go through core's own functions, so a point
 * lookup or LIMIT 1 allocates one small struct and nothing else.
 *
 * This is the only file that reads IndexFetchHeapData, the heap AM's private
 * struct.  Its one field, the pinned buffer of the current row, is checked
 * against the row just returned by core before a scan starts to stream.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/tableam.h"
#include "catalog/pg_am_d.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "index_scan/la_btree_kill.h"
#include "index_scan/la_index_fetch.h"
#include "index_scan/la_tid_ring.h"
#include "la_guc.h"

/*
 * Index entries that a scan takes through core before a stream is built.
 * Arbitrary: point lookups and LIMIT 1 stay below it, and four pages read
 * one by one are a small part of a scan that is worth prefetching.
 */
#define START_AFTER 4

static TableAmRoutine shadow_routine;
static RelationData shadow_relation;

/* Has anything been found that cannot be?  Then no scan streams any more. */
static bool distrusted = false;

static void init_shadow(void);
static void shadow_fetch_reset(IndexFetchTableData *base);
static void shadow_fetch_end(IndexFetchTableData *base);
static bool shadow_fetch_tuple(IndexFetchTableData *base, ItemPointer tid,
							   Snapshot snapshot, TupleTableSlot *slot,
							   bool *call_again, bool *all_dead);
static void give_up_ring(LaIndexFetch *fetch);
static bool next_through_core(LaIndexFetch *fetch, ScanDirection direction,
							  TupleTableSlot *slot, bool *more);
static bool may_start_stream(LaIndexFetch *fetch, ScanDirection direction);
static bool layout_as_expected(LaIndexFetch *fetch);
static uint32 start_after(void);

/*
 * Our state of a scan, or NULL when it is not wrapped.
 */
LaIndexFetch *
la_index_fetch_of(IndexScanDesc scan)
{
	IndexFetchTableData *fetch = scan->xs_heapfetch;

	if (fetch->rel == &shadow_relation)
		return (LaIndexFetch *) fetch;
	return NULL;
}

/*
 * Wraps the fetch state of a scan that has begun but returned nothing.
 */
LaIndexFetch *
la_index_fetch_wrap(IndexScanDesc scan, LaNode *node)
{
	LaIndexFetch *fetch;

	if (shadow_relation.rd_tableam == NULL)
		init_shadow();

	fetch = MemoryContextAllocZero(node->query->estate->es_query_cxt,
								   sizeof(LaIndexFetch));
	fetch->base.rel = &shadow_relation;
	fetch->inner = scan->xs_heapfetch;
	fetch->scan = scan;
	fetch->node = node;
	fetch->context = node->query->estate->es_query_cxt;
	scan->xs_heapfetch = &fetch->base;
	return fetch;
}

/*
 * Puts the next visible row of the scan into the slot.  Returns false at the
 * end.  Like index_getnext_slot(), and like it not to be called after false
 * until the next rescan.
 */
bool
la_index_fetch_next(LaIndexFetch *fetch, ScanDirection direction,
					TupleTableSlot *slot)
{
	if (!fetch->streaming)
	{
		bool		more;

		if (next_through_core(fetch, direction, slot, &more))
			return true;
		if (!more)
			return false;
		if (fetch->ring == NULL)
			fetch->ring = la_tid_ring_create(fetch);
		la_tid_ring_start(fetch->ring, direction);
		fetch->streaming = true;
	}
	if (la_tid_ring_next(fetch->ring, direction, slot))
		return true;
	if (la_tid_ring_crowded(fetch->node->query))
		give_up_ring(fetch);
	return false;
}

/*
 * Frees the ring of a scan that has ended, for the sake of others in the same
 * query.
 */
static void
give_up_ring(LaIndexFetch *fetch)
{
	la_tid_ring_reset(fetch->ring);
	la_tid_ring_free(fetch->ring);
	fetch->ring = NULL;
	fetch->streaming = false;
	fetch->entries_taken = 0;
}

/*
 * Takes entries through core's functions: returns true with a row in the
 * slot, or false with *more saying whether the scan has ended or shall go on
 * as a stream.  Mirrors index_getnext_slot(); an MVCC snapshot sees one row
 * of a HOT chain at most, so there is never a chain to continue.
 */
static bool
next_through_core(LaIndexFetch *fetch, ScanDirection direction,
				  TupleTableSlot *slot, bool *more)
{
	for (;;)
	{
		if (fetch->entries_taken >= start_after() &&
			may_start_stream(fetch, direction))
		{
			*more = true;
			return false;
		}
		if (index_getnext_tid(fetch->scan, direction) == NULL)
		{
			*more = false;
			return false;
		}
		fetch->entries_taken++;
		if (index_fetch_heap(fetch->scan, slot))
			return true;
	}
}

/*
 * Is it worth while, and safe, to go on as a stream?  Looking ahead is of no
 * use when a Limit wants hardly any more rows.
 */
static bool
may_start_stream(LaIndexFetch *fetch, ScanDirection direction)
{
	if (!la_feature_enabled(LA_FEATURE_INDEX_SCAN) || distrusted)
		return false;
	if (la_registry_rows_wanted(fetch->node) <= start_after())
		return false;
	if (fetch->ring == NULL && !la_tid_ring_affordable(fetch->node->query))
		return false;
	if (!layout_as_expected(fetch))
	{
		la_index_fetch_distrust();
		fetch->node->reason = LA_REASON_SELF_CHECK;
		ereport(LOG,
				(errmsg("pg_lookahead leaves index scans of this session to core"),
				 errdetail("Private structures of this server are not as expected."),
				 errhint("Rebuild pg_lookahead against this server's header files.")));
		return false;
	}
	return true;
}

/*
 * Do the private structures look as the headers say?  Compares what they hold
 * with what core just returned.  Before the first entry there is nothing to
 * compare but the sizes.
 */
static bool
layout_as_expected(LaIndexFetch *fetch)
{
	IndexFetchHeapData *heap_fetch = (IndexFetchHeapData *) fetch->inner;

#ifdef LA_TEST
	if (la_test_fail_self_check)
		return false;
#endif
	if (heap_fetch->xs_base.rel != fetch->scan->heapRelation)
		return false;
	if (fetch->entries_taken > 0 && BufferIsValid(heap_fetch->xs_cbuf) &&
		BufferGetBlockNumber(heap_fetch->xs_cbuf) !=
		ItemPointerGetBlockNumber(&fetch->scan->xs_heaptid))
		return false;
	if (fetch->scan->indexRelation->rd_rel->relam != BTREE_AM_OID)
		return true;
	return la_btree_layout_as_expected(fetch->scan, fetch->entries_taken > 0);
}

static uint32
start_after(void)
{
#ifdef LA_TEST
	if (la_test_start_after >= 0)
		return la_test_start_after;
#endif
	return START_AFTER;
}

/*
 * Makes a pinned buffer, the page of the next row, the current buffer of the
 * heap AM, which takes over the pin.  A second pin of ours on the page would
 * switch off pruning, which needs the only one (see
 * ConditionalLockBufferForCleanup in src/backend/storage/buffer/bufmgr.c).
 * The heap AM prunes when it changes buffers, which it now cannot notice, so
 * that is done here, as in heapam_index_fetch_tuple().
 */
void
la_index_fetch_take_pin(LaIndexFetch *fetch, Buffer buffer)
{
	IndexFetchHeapData *heap_fetch = (IndexFetchHeapData *) fetch->inner;
	Buffer		previous = heap_fetch->xs_cbuf;

	if (BufferIsValid(previous))
		ReleaseBuffer(previous);
	heap_fetch->xs_cbuf = buffer;
	if (previous != buffer)
		heap_page_prune_opt(heap_fetch->xs_base.rel, buffer);
}

/*
 * Releases the pin on the page of the current row: at the end of the scan.
 */
void
la_index_fetch_release_pin(LaIndexFetch *fetch)
{
	GetHeapamTableAmRoutine()->index_fetch_reset(fetch->inner);
}

/*
 * An internal inconsistency was found: from now on, index scans of this
 * backend are left to core.
 */
void
la_index_fetch_distrust(void)
{
	distrusted = true;
}

bool
la_index_fetch_distrusted(void)
{
	return distrusted;
}

/*
 * The shadow relation: the heap AM's routine with our functions where
 * IndexFetchTableData is handled.
 */
static void
init_shadow(void)
{
	shadow_routine = *GetHeapamTableAmRoutine();
	shadow_routine.index_fetch_reset = shadow_fetch_reset;
	shadow_routine.index_fetch_end = shadow_fetch_end;
	shadow_routine.index_fetch_tuple = shadow_fetch_tuple;
	shadow_relation.rd_tableam = &shadow_routine;
}

/*
 * Rescan, or the end of the index in the part of the scan that goes through
 * core.  What look-ahead has read and not returned is dropped.
 */
static void
shadow_fetch_reset(IndexFetchTableData *base)
{
	LaIndexFetch *fetch = (LaIndexFetch *) base;

	if (fetch->streaming)
		la_tid_ring_reset(fetch->ring);
	fetch->streaming = false;
	fetch->entries_taken = 0;
	GetHeapamTableAmRoutine()->index_fetch_reset(fetch->inner);
}

static void
shadow_fetch_end(IndexFetchTableData *base)
{
	LaIndexFetch *fetch = (LaIndexFetch *) base;

	if (fetch->ring != NULL)
	{
		la_tid_ring_reset(fetch->ring);
		la_tid_ring_free(fetch->ring);
	}
	GetHeapamTableAmRoutine()->index_fetch_end(fetch->inner);
	pfree(fetch);
}

static bool
shadow_fetch_tuple(IndexFetchTableData *base, ItemPointer tid,
				   Snapshot snapshot, TupleTableSlot *slot,
				   bool *call_again, bool *all_dead)
{
	LaIndexFetch *fetch = (LaIndexFetch *) base;

	return GetHeapamTableAmRoutine()->index_fetch_tuple(fetch->inner, tid,
														snapshot, slot,
														call_again, all_dead);
}
