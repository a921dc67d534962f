/*-------------------------------------------------------------------------
 *
 * la_tid_ring.c
 *	  rows of an index scan that looks ahead
 *
 * A ring of index entries lies between the index AM, from which it is filled
 * (la_ring.c), and the executor, which consumes it.  In between, the kernel is
 * asked for the table pages of the entries (la_ring_advice.c).
 *
 * The row itself is fetched by the heap AM, so visibility, HOT chains and
 * predicate locks are core's.
 *
 * Reads IndexScanDescData of relscan.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/tableam.h"
#include "catalog/pg_am_d.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/injection_point.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "index_scan/la_index_feature.h"
#include "index_scan/la_ring_advice.h"
#include "index_scan/la_tid_ring.h"

/*
 * Allocates a ring for a scan, in the memory of its query.
 */
LaTidRing *
la_tid_ring_create(IndexScanDesc scan, IndexFetchTableData *heap_fetch,
				   LaNode *node, LaIndexFindings *findings)
{
	MemoryContext context = node->query->estate->es_query_cxt;
	MemoryContext old = MemoryContextSwitchTo(context);
	LaTidRing  *ring = palloc0_object(LaTidRing);

	ring->scan = scan;
	ring->heap_fetch = heap_fetch;
	ring->node = node;
	ring->findings = findings;
	ring->context = context;
	ring->heap = GetHeapamTableAmRoutine();
	la_ring_take(ring);
	ring->is_btree = scan->indexRelation->rd_rel->relam == BTREE_AM_OID;
	ring->leaves.dead.context = context;
	ring->advice = la_advice_create(scan->heapRelation, context, &node->counters);
	ring->advice->notes_passes = true;
#ifdef LA_TEST
	ring->test_depth = la_test_depth;
	pg_prng_seed(&ring->test_random, (uint64) la_test_stop_seed);
#endif
	MemoryContextSwitchTo(old);
	return ring;
}

/*
 * Starts to read ahead from where the index AM stands.
 */
void
la_tid_ring_start(LaTidRing *ring, ScanDirection direction)
{
	IndexScanDesc scan = ring->scan;

	ring->direction = direction;
	ring->consumed = ring->filled = 0;
	ring->exhausted = false;
	ring->draining = false;
	ring->current_block = InvalidBlockNumber;
	la_ring_advice_start(ring);
	if (ring->is_btree)
		la_leaf_queue_start(&ring->leaves, scan);
	else
	{
		ring->prior_dead = scan->kill_prior_tuple;
		ring->findings->lock_step |= ring->prior_dead;
	}
	scan->kill_prior_tuple = false;
	la_wake_up(&ring->findings->wake);
}

/*
 * Consumes an entry.  Returns true with its row in the slot, or false if no
 * row of it is visible.
 */
static bool
fetch_row(LaTidRing *ring, TupleTableSlot *slot)
{
	IndexScanDesc scan = ring->scan;
	LaIndexFindings *findings = ring->findings;
	LaTidEntry	entry = *la_ring_entry(ring, ring->consumed);
	bool		all_dead = false;
	bool		found;
	bool		is_dead;

	INJECTION_POINT("pg-lookahead-before-fetch", NULL);
	if (ItemPointerGetBlockNumber(&entry.tid) == ring->current_block)
		ring->node->counters.repeated++;
	else
		la_ring_advice_before_fetch(ring, &entry);
	ring->current_block = ItemPointerGetBlockNumber(&entry.tid);

	scan->xs_heaptid = entry.tid;
	scan->xs_recheck = entry.recheck;
	scan->xs_heap_continue = false;
	pgstat_count_index_tuples(scan->indexRelation, 1);

	/*
	 * Mirrors index_fetch_heap() in indexam.c, without the way through our
	 * shadow relation.  Of a dead entry no transaction can see any row.
	 */
	found = ring->heap->index_fetch_tuple(ring->heap_fetch, &scan->xs_heaptid,
										  scan->xs_snapshot, slot,
										  &scan->xs_heap_continue, &all_dead);
	if (found)
		pgstat_count_heap_fetch(scan->indexRelation);
	is_dead = all_dead && !scan->xactStartedInRecovery;

	ring->consumed++;
	if (!la_wake_step(&findings->wake) && la_wake_is_calm(&findings->wake))
		ring->draining = true;
	if (ring->is_btree)
		la_leaf_queue_consumed(&ring->leaves, scan, &entry, is_dead,
							   &ring->node->counters);
	else
	{
		ring->prior_dead = is_dead;
		findings->lock_step |= is_dead;
	}
	return found;
}

/*
 * With test_depth, asks the AM for so many entries ahead at once; with
 * test_stop_seed too, for a random number up to that.
 */
static void
fill_to_test_depth(LaTidRing *ring)
{
#ifdef LA_TEST
	uint64		depth = ring->test_depth;

	if (depth == 0)
		return;
	if (la_test_stop_seed != 0)
		depth = pg_prng_uint64_range(&ring->test_random, 1, depth);
	while (ring->filled - ring->consumed < depth && la_ring_fill(ring))
		;
#endif
}

/*
 * Puts the next visible row into the slot.  Returns false at the end.
 */
bool
la_tid_ring_next(LaTidRing *ring, ScanDirection direction,
				 TupleTableSlot *slot)
{
	if (unlikely(direction != ring->direction))
		elog(ERROR, "index scan changed direction while reading ahead");

	for (;;)
	{
		fill_to_test_depth(ring);
		if (ring->consumed == ring->filled && !la_ring_fill(ring))
		{
			if (!la_tid_ring_drained(ring))
				ring->heap->index_fetch_reset(ring->heap_fetch);
			return false;
		}
		if (fetch_row(ring, slot))
			return true;
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Has the ring been emptied because there is no use in looking ahead for the
 * moment?  Then the index AM stands on the entry that was returned last.
 */
bool
la_tid_ring_drained(const LaTidRing *ring)
{
	return ring->draining && !ring->exhausted && ring->consumed == ring->filled;
}

/*
 * Lets core go on with a scan whose ring has been drained.
 */
void
la_tid_ring_hand_back(LaTidRing *ring)
{
	la_ring_advice_hand_back(ring);
	la_tid_ring_reset(ring);
	if (!ring->is_btree)
		ring->scan->kill_prior_tuple = ring->prior_dead;
}

/*
 * Drops everything that was read ahead.  The index AM must still stand where
 * look-ahead has left it.
 */
void
la_tid_ring_reset(LaTidRing *ring)
{
	if (ring->is_btree)
		la_leaf_queue_reset(&ring->leaves, ring->scan);
	ring->consumed = ring->filled = 0;
}

/*
 * Frees a ring that has been reset.  Nothing of it is left to the end of the query: a
 * scan gives its ring up each time it goes to sleep.
 */
void
la_tid_ring_free(LaTidRing *ring)
{
	la_advice_free(ring->advice);
	la_leaf_queue_free(&ring->leaves);
	la_ring_release(ring);
	pfree(ring);
}
