/*-------------------------------------------------------------------------
 *
 * la_ring.c
 *	  the ring of index entries that an index scan has read ahead
 *
 * Asks the AM for entries that the executor has not come to, and no more than
 * the ring has room for.  What becomes of dead entries decides how far: those of
 * a btree are kept by leaf (la_leaf_queue.c), those of other AMs can be noted one
 * by one only.
 *
 * A query over a thousand partitions must not take a thousand rings' worth: the
 * rings of one statement share a budget.  A scan that would begin to look ahead
 * beyond it stays with core, and scans that are over or asleep give up their rings.
 *
 * Reads IndexScanDescData of relscan.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "index_scan/la_index_feature.h"
#include "index_scan/la_leaf_queue.h"
#include "index_scan/la_ring.h"
#include "la_feature.h"

/* What a ring takes beside its entries, as a rule, in bytes. */
#define FIXED_BYTES 8192

/* Most entries taken from a leaf at once: arbitrary. */
#define FILL_AT_ONCE 32

/*
 * What a ring of some capacity takes.
 */
static Size
ring_bytes(uint32 capacity)
{
	return FIXED_BYTES + capacity * sizeof(LaTidEntry);
}

/*
 * May another scan of this query begin to look ahead?
 */
bool
la_ring_affordable(const LaQuery *query)
{
	return query->ring_bytes + ring_bytes(LA_RING_SIZE) <= LA_STATEMENT_BYTES;
}

/*
 * Allocates the entries of a ring.
 */
void
la_ring_take(LaTidRing *ring)
{
	ring->capacity = LA_RING_SIZE;
#ifdef LA_TEST
	if (la_test_ring_size > 0)
		ring->capacity = pg_nextpower2_32(Max(la_test_ring_size, 2));
#endif
	ring->entries = MemoryContextAlloc(ring->context,
									   ring->capacity * sizeof(LaTidEntry));
	ring->node->query->ring_bytes += ring_bytes(ring->capacity);
}

void
la_ring_release(LaTidRing *ring)
{
	ring->node->query->ring_bytes -= ring_bytes(ring->capacity);
	pfree(ring->entries);
}

/*
 * Calls amgettuple itself.  Mirrors index_getnext_tid() in indexam.c, which
 * would count the entry now and, at the end, reset us.
 */
static bool
ask_am(LaTidRing *ring)
{
	IndexScanDesc scan = ring->scan;
	bool		found;

	found = scan->indexRelation->rd_indam->amgettuple(scan, ring->direction);
	scan->kill_prior_tuple = false;
	ring->exhausted = !found;
	return found;
}

static bool
fill_from_leaf(LaTidRing *ring)
{
	IndexScanDesc scan = ring->scan;
	LaTidEntry *entry = la_ring_entry(ring, ring->filled);
	uint32		slot = ring->filled & (ring->capacity - 1);
	uint32		room = ring->capacity - (uint32) (ring->filled - ring->consumed);
	uint32		taken;
	bool		leaves_page;
	bool		found;

	/* As many as can be written at once. */
	taken = la_leaf_queue_take(&ring->leaves, scan, ring->direction, entry,
							   Min(Min(room, ring->capacity - slot), FILL_AT_ONCE));
	if (taken > 0)
	{
		ring->filled += taken;
		return true;
	}
	if (!la_leaf_queue_may_advance(&ring->leaves, scan, ring->direction,
								   &leaves_page))
		return false;

	found = ask_am(ring);
	la_leaf_queue_advanced(&ring->leaves, scan, found, leaves_page, entry);
	if (found)
		ring->filled++;
	return found;
}

/*
 * For any other AM.  It notes a dead entry when it is asked for the next one,
 * as the one that it returned last.  So look-ahead ends with the first dead
 * entry: from then on the AM is asked when everything is consumed, and what is
 * dead is noted as without us.  The scan starts no ring any more, after a rescan
 * either.
 */
static bool
fill_from_am(LaTidRing *ring)
{
	IndexScanDesc scan = ring->scan;
	LaTidEntry *entry = la_ring_entry(ring, ring->filled);

	if (ring->filled > ring->consumed)
	{
		if (ring->findings->lock_step)
			return false;
	}
	else
		scan->kill_prior_tuple = ring->prior_dead;

	if (!ask_am(ring))
		return false;
	memset(entry, 0, sizeof(LaTidEntry));
	entry->tid = scan->xs_heaptid;
	entry->recheck = scan->xs_recheck;
	ring->filled++;
	return true;
}

/*
 * Takes at least one entry from the index AM.  Returns false if there is none,
 * or if it must not be asked for the moment.  Where look-ahead was switched off
 * between two fetches of a cursor, core goes on when the ring is empty.
 */
bool
la_ring_fill(LaTidRing *ring)
{
	if (!la_feature_enabled(LA_FEATURE_INDEX_SCAN))
		ring->draining = true;
	if (ring->exhausted || ring->draining)
		return false;
	if (ring->filled - ring->consumed == ring->capacity)
		return false;
	return ring->is_btree ? fill_from_leaf(ring) : fill_from_am(ring);
}
