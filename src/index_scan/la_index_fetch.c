/*-------------------------------------------------------------------------
 *
 * la_index_fetch.c
 *	  our IndexFetchTableData, which wraps the heap AM's
 *
 * Rescan, parallel rescan, restore and end of an index scan all reach the
 * table AM (relies on index_rescan(), index_parallelrescan(), index_restrpos()
 * and index_endscan() in indexam.c): these call table_index_fetch_reset() or
 * table_index_fetch_end() on IndexScanDesc.xs_heapfetch before anything else,
 * while the index AM still stands on its leaf page.  Those find the AM's
 * functions through xs_heapfetch->rel->rd_tableam and look at nothing else of
 * that relation (relies on table_index_fetch_reset(), table_index_fetch_end()
 * and table_index_fetch_tuple() in tableam.h).
 * So xs_heapfetch is made to point at a struct of ours whose rel is a shadow:
 * a RelationData in which only rd_tableam is set, to a copy of the heap AM's
 * routine with our functions in it.  Everything that a scan must not outlive
 * is released there, and no other interception is needed.
 *
 * A scan sleeps at first: its xs_heapfetch is the heap AM's, and it takes its
 * entries through core's functions (la_index_exec.c).  When a page had to be
 * read it wakes, and is wrapped.  It goes on through core's functions until it
 * is clear that pages come from a device, not from the OS cache; then a ring of
 * entries reads ahead (la_tid_ring.c).  When nothing was read for some time the
 * ring is emptied and the scan sleeps again, unwrapped.  A scan that may only peek
 * (la_index_peek.c) never gets a ring.
 *
 * An index-only scan is wrapped from the beginning, since it visits the table only
 * for pages that are not all-visible, and those visits come to us.
 *
 * Reads IndexScanDescData and IndexFetchTableData of relscan.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/tableam.h"
#include "utils/rel.h"

#include "attach/la_asleep.h"
#include "attach/la_attach.h"
#include "index_scan/la_index_fetch.h"
#include "index_scan/la_index_peek.h"
#include "index_scan/la_index_reason.h"
#include "index_scan/la_tid_ring.h"

/*
 * Table pages that a scan reads one by one before it looks ahead, of which the
 * first one wakes it: the second tells where it came from.
 */
#define MISSES_TO_START 2

static TableAmRoutine shadow_routine;
static RelationData shadow_relation;
static const TableAmRoutine *heap;

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
 * Frees the ring of a scan that has ended or sleeps, for the sake of others in
 * the same query.
 */
static void
give_up_ring(LaIndexFetch *fetch)
{
	la_tid_ring_reset(fetch->ring);
	la_tid_ring_free(fetch->ring);
	fetch->ring = NULL;
	fetch->looking_ahead = false;
	fetch->entries_taken = 0;
}

/*
 * Rescan, or the end of the index in the part of the scan that goes through
 * core.  What look-ahead has read and not returned is dropped, and the ring, too, where
 * those of scans that were left early take much of what a statement may have.
 */
static void
shadow_fetch_reset(IndexFetchTableData *base)
{
	LaIndexFetch *fetch = (LaIndexFetch *) base;

	if (fetch->ring != NULL &&
		fetch->node->query->ring_bytes > LA_STATEMENT_BYTES / 2)
		give_up_ring(fetch);
	else if (fetch->looking_ahead)
		la_tid_ring_reset(fetch->ring);
	fetch->looking_ahead = false;
	fetch->looked_ahead = false;
	fetch->wants_ring = false;
	fetch->entries_taken = 0;
	fetch->missed = 0;
	heap->index_fetch_reset(fetch->inner);
}

/*
 * The end of the query, which frees the rest.
 */
static void
shadow_fetch_end(IndexFetchTableData *base)
{
	LaIndexFetch *fetch = (LaIndexFetch *) base;

	if (fetch->ring != NULL)
		give_up_ring(fetch);
	heap->index_fetch_end(fetch->inner);
}

/*
 * An entry was taken through core's functions: notes whether its page had to
 * be read, and from where.
 */
static void
note_read(LaIndexFetch *fetch)
{
	LaIndexFindings *findings = &fetch->findings;

	if (!la_wake_step(&findings->wake))
		return;
	fetch->missed++;
	if (findings->reads_to_pass > 0)
	{
		findings->reads_to_pass--;
		return;
	}
	if (fetch->peek == NULL && la_residency_read(&findings->residency) &&
		fetch->missed >= MISSES_TO_START)
		fetch->wants_ring = true;
}

/*
 * Gives the scan back to core if nothing was read for some time, or the kernel
 * reads ahead.  All that we have allocated but the ring stays, for the next
 * time.
 */
static void
fall_asleep(LaIndexFetch *fetch)
{
	if (!la_wake_is_calm(&fetch->findings.wake) && fetch->findings.reads_to_pass == 0)
		return;
	Assert(!fetch->looking_ahead);
	if (fetch->ring != NULL)
		give_up_ring(fetch);
	la_wake_sleep(&fetch->findings.wake);
	if (IsA(fetch->planstate, IndexScanState))
		fetch->scan->xs_heapfetch = fetch->inner;
}

/*
 * Fetches a row for core's functions.  An index-only scan comes here, asleep or
 * awake, when its row is on a page that is not all-visible; other scans while
 * they are awake.
 */
static bool
shadow_fetch_tuple(IndexFetchTableData *base, ItemPointer tid,
				   Snapshot snapshot, TupleTableSlot *slot,
				   bool *call_again, bool *all_dead)
{
	LaIndexFetch *fetch = (LaIndexFetch *) base;
	bool		peeks = false;
	int64		reads;
	bool		found;

	if (unlikely(fetch->findings.wake.awake))
	{
		const IndexOnlyScan *plan = (const IndexOnlyScan *) fetch->planstate->plan;

		peeks = IsA(plan, IndexOnlyScan);
		if (peeks)
			la_index_peek(fetch->peek, ScanDirectionCombine(fetch->planstate->state->es_direction,
															plan->indexorderdir));
	}
	reads = la_reads();
	found = heap->index_fetch_tuple(fetch->inner, tid, snapshot, slot, call_again,
									all_dead);
	if (unlikely(fetch->findings.wake.awake))
	{
		if (peeks)
		{
			note_read(fetch);
			fall_asleep(fetch);
		}
	}
	else if (unlikely(la_asleep_missed(fetch->planstate, reads)))
		(void) la_index_fetch_wake(fetch->scan, fetch->planstate);
	return found;
}

/*
 * Wraps the fetch state of a scan, which stays asleep.
 */
LaIndexFetch *
la_index_fetch_wrap(IndexScanDesc scan, PlanState *planstate)
{
	LaIndexFetch *fetch;

	if (shadow_relation.rd_tableam == NULL)
	{
		/*
		 * The heap AM's routine with our functions where this struct is
		 * handled.
		 */
		heap = GetHeapamTableAmRoutine();
		shadow_routine = *heap;
		shadow_routine.index_fetch_reset = shadow_fetch_reset;
		shadow_routine.index_fetch_end = shadow_fetch_end;
		shadow_routine.index_fetch_tuple = shadow_fetch_tuple;
		shadow_relation.rd_tableam = &shadow_routine;
	}

	fetch = MemoryContextAllocZero(planstate->state->es_query_cxt,
								   sizeof(LaIndexFetch));
	fetch->base.rel = &shadow_relation;
	fetch->inner = scan->xs_heapfetch;
	fetch->scan = scan;
	fetch->planstate = planstate;
	scan->xs_heapfetch = &fetch->base;
	return fetch;
}

/*
 * A page was read on behalf of a scan that sleeps: wakes it, and wraps it if it is
 * not wrapped.  Returns NULL when it has to stay with core.
 */
LaIndexFetch *
la_index_fetch_wake(IndexScanDesc scan, PlanState *planstate)
{
	LaNode	   *node = la_attach_wake(planstate, LA_FEATURE_INDEX_SCAN);
	LaIndexFetch *fetch = la_index_fetch_of(scan);
	LaResidency *residency;

	if (node == NULL)
		return NULL;
	if (fetch == NULL && node->state != NULL)
	{
		fetch = node->state;
		if (fetch->findings.reads_to_pass > 0)
		{
			fetch->findings.reads_to_pass--;
			return NULL;
		}

		/* A node begins its scan once. */
		Assert(fetch->scan == scan && fetch->inner == scan->xs_heapfetch);
		scan->xs_heapfetch = &fetch->base;
	}
	else if (fetch == NULL)
		fetch = la_index_fetch_wrap(scan, planstate);

	residency = &fetch->findings.residency;
	if (fetch->node == NULL)
	{
		fetch->node = node;
		node->state = fetch;
		la_residency_init(residency, scan->heapRelation);
		if (node->way == LA_INDEX_PEEK)
			fetch->peek = la_index_peek_create(node, scan);
	}
	else
		la_residency_resume(residency);
	fetch->entries_taken = la_wake_at_start() ? 0 : 1;
	fetch->missed = 1;
	fetch->wants_ring = false;
	la_wake_up(&fetch->findings.wake);
	return fetch;
}

/*
 * Has the scan go on with a ring.
 */
static void
start_ring(LaIndexFetch *fetch, ScanDirection direction)
{
	LaCounters *counters = &fetch->node->counters;

	if (fetch->ring == NULL)
		fetch->ring = la_tid_ring_create(fetch->scan, fetch->inner,
										 fetch->node, &fetch->findings);
	la_tid_ring_start(fetch->ring, direction);
	if (fetch->looked_ahead)
		counters->restarts++;
	else
		counters->scans++;
	fetch->looking_ahead = true;
	fetch->looked_ahead = true;
}

/*
 * Does the scan want a ring?  A test setting starts it after some entries.
 */
static bool
shall_start(const LaIndexFetch *fetch)
{
	if (fetch->findings.lock_step)
		return false;
#ifdef LA_TEST
	if (la_wake_forced())
		return true;
#endif
	return fetch->wants_ring;
}

/*
 * Is it worth while, and safe, to look ahead?  It is of no use when a Limit
 * wants hardly any more rows, or a join above has done it.
 */
static bool
may_look_ahead(LaIndexFetch *fetch)
{
	if (fetch->node->asked_above)
		return false;
	if (!la_feature_enabled(LA_FEATURE_INDEX_SCAN) || !la_index_trusted())
		return false;
	if (la_registry_rows_wanted(fetch->node) <= 1 && !la_wake_forced())
		return false;
	if (fetch->ring == NULL && !la_ring_affordable(fetch->node->query))
		return false;
	return la_index_trust_check(fetch->scan, fetch->inner,
								fetch->entries_taken > 0, &fetch->node->reason);
}

/*
 * Takes entries through core's functions: returns true with a row in the
 * slot, or false with *more saying whether the scan has ended or shall go on
 * with a ring.  Mirrors index_getnext_slot() in indexam.c.
 */
static bool
next_through_core(LaIndexFetch *fetch, ScanDirection direction,
				  TupleTableSlot *slot, bool *more)
{
	IndexScanDesc scan = fetch->scan;

	for (;;)
	{
		bool		found;

		if (fetch->peek == NULL && shall_start(fetch) && may_look_ahead(fetch))
		{
			*more = true;
			return false;
		}
		if (fetch->peek != NULL)
			la_index_peek(fetch->peek, direction);
		if (!scan->xs_heap_continue &&
			index_getnext_tid(scan, direction) == NULL)
		{
			*more = false;
			return false;
		}
		fetch->entries_taken++;
		found = index_fetch_heap(scan, slot);
		note_read(fetch);

		/* Not before there is a row: the loop is of a scan that is wrapped. */
		if (found)
		{
			fall_asleep(fetch);
			return true;
		}
	}
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
	for (;;)
	{
		bool		more;

		if (!fetch->looking_ahead)
		{
			if (next_through_core(fetch, direction, slot, &more))
				return true;
			if (!more)
				break;
			start_ring(fetch, direction);
		}
		if (la_tid_ring_next(fetch->ring, direction, slot))
			return true;
		if (!la_tid_ring_drained(fetch->ring))
			break;
		la_tid_ring_hand_back(fetch->ring);
		fetch->looking_ahead = false;
		fetch->wants_ring = false;
	}
	if (fetch->ring != NULL)
		give_up_ring(fetch);
	return false;
}
