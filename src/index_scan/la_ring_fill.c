/*-------------------------------------------------------------------------
 *
 * la_ring_fill.c
 *	  takes index entries from the index AM into a ring
 *
 * Asks the AM for entries that the executor has not come to, and no more than
 * the ring has room for.  What becomes of dead entries decides how far: those of
 * a btree are kept by leaf (la_leaf_queue.c), those of other AMs can be noted one
 * by one only.
 *
 * Reads IndexScanDescData of relscan.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "utils/rel.h"

#include "index_scan/la_leaf_queue.h"
#include "index_scan/la_ring_fill.h"
#include "index_scan/la_ring_memory.h"
#include "la_feature.h"

/* Most entries taken from a leaf at once: arbitrary. */
#define FILL_AT_ONCE 32

static bool fill_from_leaf(LaTidRing *ring);
static bool fill_from_am(LaTidRing *ring);
static bool ask_am(LaTidRing *ring);

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
	if (ring->filled - ring->consumed == ring->capacity &&
		!la_ring_memory_grow(ring))
		return false;
	return ring->is_btree ? fill_from_leaf(ring) : fill_from_am(ring);
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
