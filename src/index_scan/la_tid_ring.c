/*-------------------------------------------------------------------------
 *
 * la_tid_ring.c
 *	  index entries read ahead
 *
 * A ring of index entries lies between the index AM, which fills it, and the
 * executor, which consumes it.  In between, the table pages of the entries are
 * had read, in one of two ways (la_transport.c): by la_ring_advice.c or by
 * la_ring_stream.c.
 *
 * The row itself is fetched by the heap AM, so visibility, HOT chains and
 * predicate locks are core's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/heapam.h"
#include "access/tableam.h"
#include "catalog/pg_am_d.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/injection_point.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "index_scan/la_btree_kill.h"
#include "index_scan/la_ring_advice.h"
#include "index_scan/la_ring_state.h"
#include "index_scan/la_ring_stream.h"
#include "index_scan/la_tid_ring.h"
#include "la_guc.h"
#include "prefetch/la_transport.h"

/* First capacity of a ring, in entries: arbitrary; doubled when it is full. */
#define RING_SIZE_INITIAL 256

/*
 * Memory of all rings of one statement, in bytes: a query over a thousand
 * partitions must not take a thousand rings' worth.
 */
#define STATEMENT_BYTES (4 * 1024 * 1024)

/* What a ring takes beside its entries, as a rule, in bytes. */
#define RING_FIXED_BYTES 8192

/* Most entries taken from a leaf at once: arbitrary. */
#define FILL_AT_ONCE 32

/* One random stop in so many entries, with test_stop_seed. */
#define TEST_STOP_ONE_IN 16

static Size ring_bytes(uint32 capacity);
static int	request_distance(const LaTidRing *ring);
static bool fill_from_leaf(LaTidRing *ring);
static bool fill_from_am(LaTidRing *ring);
static bool ask_am(LaTidRing *ring);
static bool make_room(LaTidRing *ring);
static uint32 adjacent_room(const LaTidRing *ring);
static bool is_ready(LaTidRing *ring);
static bool fetch_row(LaTidRing *ring, TupleTableSlot *slot);
static bool fetch_heap(LaTidRing *ring, TupleTableSlot *slot, bool *is_dead);
static void apply_test_settings(LaTidRing *ring);
static void fill_to_test_depth(LaTidRing *ring);

/*
 * Allocates a ring for a scan, in the memory of its query.
 */
LaTidRing *
la_tid_ring_create(LaIndexFetch *fetch)
{
	MemoryContext old = MemoryContextSwitchTo(fetch->context);
	LaTidRing  *ring = palloc0_object(LaTidRing);

	ring->fetch = fetch;
	ring->heap = GetHeapamTableAmRoutine();
	ring->capacity = RING_SIZE_INITIAL;
	ring->max_capacity = LA_RING_SIZE_MAX;
	apply_test_settings(ring);
	ring->entries = palloc_array(LaTidEntry, ring->capacity);
	fetch->node->query->ring_bytes += ring_bytes(ring->capacity);
	ring->is_btree =
		fetch->scan->indexRelation->rd_rel->relam == BTREE_AM_OID;
	la_leaf_queue_init(&ring->leaves, fetch->context);
	if (la_transport_choose() == LA_TRANSPORT_ADVICE)
		ring->advice = la_ring_advice_create(ring);
	else
		ring->stream = la_ring_stream_create(ring, request_distance(ring));
	MemoryContextSwitchTo(old);
	return ring;
}

/*
 * Starts to read ahead from where the index AM stands.
 */
void
la_tid_ring_start(LaTidRing *ring, ScanDirection direction)
{
	IndexScanDesc scan = ring->fetch->scan;

	ring->direction = direction;
	ring->consumed = ring->filled = 0;
	ring->exhausted = false;
	ring->current_block = InvalidBlockNumber;
	if (ring->advice)
		la_ring_advice_start(ring, request_distance(ring));
	else
		la_ring_stream_start(ring);
	if (ring->is_btree)
		la_leaf_queue_start(&ring->leaves, scan);
	ring->prior_dead = scan->kill_prior_tuple;
	ring->one_by_one = ring->prior_dead;
	scan->kill_prior_tuple = false;
	ring->fetch->node->counters.scans++;
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
		if (ring->test_depth > 0)
			fill_to_test_depth(ring);
		if (!is_ready(ring))
		{
			la_index_fetch_release_pin(ring->fetch);
			return false;
		}
		if (fetch_row(ring, slot))
			return true;
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Drops everything that was read ahead.  The index AM must still stand where
 * look-ahead has left it.
 */
void
la_tid_ring_reset(LaTidRing *ring)
{
	if (ring->is_btree)
		la_leaf_queue_reset(&ring->leaves, ring->fetch->scan);
	if (ring->stream)
		la_ring_stream_reset(ring);
	ring->consumed = ring->filled = 0;
}

/*
 * Frees a ring that has been reset.
 */
void
la_tid_ring_free(LaTidRing *ring)
{
	if (ring->advice)
		la_ring_advice_free(ring);
	else
		la_ring_stream_free(ring);
	if (ring->leaves.dead != NULL)
		pfree(ring->leaves.dead);
	ring->fetch->node->query->ring_bytes -= ring_bytes(ring->capacity);
	pfree(ring->entries);
	pfree(ring);
}

/*
 * May another scan of this query begin to look ahead?
 */
bool
la_tid_ring_affordable(const LaQuery *query)
{
	return query->ring_bytes + ring_bytes(RING_SIZE_INITIAL) <= STATEMENT_BYTES;
}

/*
 * Do the rings of this query take half of what they may?
 */
bool
la_tid_ring_crowded(const LaQuery *query)
{
	return query->ring_bytes > STATEMENT_BYTES / 2;
}

/*
 * What a ring of some capacity takes, in bytes.
 */
static Size
ring_bytes(uint32 capacity)
{
	return RING_FIXED_BYTES + capacity * sizeof(LaTidEntry);
}

/*
 * How many requests the scan may have in flight.
 */
static int
request_distance(const LaTidRing *ring)
{
	return la_transport_distance(ring->fetch->scan->heapRelation,
								 ring->fetch->node->query->partial_fetch);
}

/*
 * Takes at least one entry from the index AM.  Returns false if there is none,
 * or if it must not be asked for the moment.
 */
bool
la_tid_ring_fill(LaTidRing *ring)
{
	if (ring->exhausted || !make_room(ring))
		return false;
	return ring->is_btree ? fill_from_leaf(ring) : fill_from_am(ring);
}

static bool
fill_from_leaf(LaTidRing *ring)
{
	IndexScanDesc scan = ring->fetch->scan;
	LaTidEntry *entry = la_tid_ring_entry(ring, ring->filled);
	uint32		taken;
	bool		leaves_page;
	bool		found;

	taken = la_leaf_queue_take(&ring->leaves, scan, ring->direction, entry,
							   adjacent_room(ring));
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
 * dead is noted as without us.
 */
static bool
fill_from_am(LaTidRing *ring)
{
	IndexScanDesc scan = ring->fetch->scan;
	LaTidEntry *entry = la_tid_ring_entry(ring, ring->filled);

	if (ring->filled > ring->consumed)
	{
		if (ring->one_by_one)
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
 * Calls amgettuple itself, because index_getnext_tid() would count the entry
 * now and, at the end, reset us.
 */
static bool
ask_am(LaTidRing *ring)
{
	IndexScanDesc scan = ring->fetch->scan;
	bool		found;

	found = scan->indexRelation->rd_indam->amgettuple(scan, ring->direction);
	scan->kill_prior_tuple = false;
	ring->exhausted = !found;
	return found;
}

/*
 * How many entries can be written at once from where the ring is filled.
 */
static uint32
adjacent_room(const LaTidRing *ring)
{
	uint32		slot = ring->filled & (ring->capacity - 1);
	uint32		room = ring->capacity - (uint32) (ring->filled - ring->consumed);

	return Min(Min(room, ring->capacity - slot), FILL_AT_ONCE);
}

/*
 * Makes room for one more entry: doubles the ring up to its bound.
 */
static bool
make_room(LaTidRing *ring)
{
	LaTidEntry *entries;
	uint32		capacity = ring->capacity * 2;

	if (ring->filled - ring->consumed < ring->capacity)
		return true;
	if (ring->capacity >= ring->max_capacity ||
		ring->fetch->node->query->ring_bytes +
		ring->capacity * sizeof(LaTidEntry) > STATEMENT_BYTES)
		return false;

	entries = MemoryContextAlloc(ring->fetch->context,
								 capacity * sizeof(LaTidEntry));
	for (uint64 i = ring->consumed; i < ring->filled; i++)
		entries[i & (capacity - 1)] = *la_tid_ring_entry(ring, i);
	pfree(ring->entries);
	ring->fetch->node->query->ring_bytes += ring->capacity * sizeof(LaTidEntry);
	ring->entries = entries;
	ring->capacity = capacity;
	return true;
}

/*
 * Is there an entry to consume?
 */
static bool
is_ready(LaTidRing *ring)
{
	if (ring->stream)
		return la_ring_stream_ready(ring);
	return ring->consumed < ring->filled || la_tid_ring_fill(ring);
}

/*
 * Consumes an entry.  Returns true with its row in the slot, or false if no
 * row of it is visible.
 */
static bool
fetch_row(LaTidRing *ring, TupleTableSlot *slot)
{
	IndexScanDesc scan = ring->fetch->scan;
	LaScanCounters *counters = &ring->fetch->node->counters;
	LaTidEntry	entry = *la_tid_ring_entry(ring, ring->consumed);
	bool		found;
	bool		is_dead;

	INJECTION_POINT("pg-lookahead-before-fetch", NULL);
	if (ring->stream)
		la_ring_stream_before_fetch(ring, &entry);
	else if (ItemPointerGetBlockNumber(&entry.tid) == ring->current_block)
		counters->repeated++;
	else
		la_ring_advice_next_page(ring, &entry);
	ring->current_block = ItemPointerGetBlockNumber(&entry.tid);

	scan->xs_heaptid = entry.tid;
	scan->xs_recheck = entry.recheck;
	scan->xs_heap_continue = false;
	pgstat_count_index_tuples(scan->indexRelation, 1);
	found = fetch_heap(ring, slot, &is_dead);

	if (ring->stream)
		la_ring_stream_after_fetch(ring, &entry);
	ring->consumed++;
	if (ring->is_btree)
		la_leaf_queue_consumed(&ring->leaves, scan, &entry, is_dead, counters);
	else
	{
		ring->prior_dead = is_dead;
		ring->one_by_one |= is_dead;
	}
	return found;
}

/*
 * Has the heap AM find the visible row of the current entry.  Mirrors
 * index_fetch_heap(), without the way through our shadow relation.  *is_dead
 * says that no transaction can see any row of the entry; never on a standby.
 */
static bool
fetch_heap(LaTidRing *ring, TupleTableSlot *slot, bool *is_dead)
{
	IndexScanDesc scan = ring->fetch->scan;
	bool		all_dead = false;
	bool		found;

	found = ring->heap->index_fetch_tuple(ring->fetch->inner,
										  &scan->xs_heaptid,
										  scan->xs_snapshot, slot,
										  &scan->xs_heap_continue, &all_dead);
	if (found)
		pgstat_count_heap_fetch(scan->indexRelation);
	*is_dead = all_dead && !scan->xactStartedInRecovery;
	return found;
}

/*
 * Lets the test settings override the size of the ring and seed its random
 * stops.
 */
static void
apply_test_settings(LaTidRing *ring)
{
#ifdef LA_TEST
	ring->test_depth = la_test_depth;
	if (la_test_ring_size > 0)
	{
		ring->max_capacity = pg_nextpower2_32(Max(la_test_ring_size,
												  LA_RING_SIZE_MIN));
		ring->capacity = Min(ring->capacity, ring->max_capacity);
	}
	pg_prng_seed(&ring->test_random, (uint64) la_test_stop_seed);
#endif
}

/*
 * Shall look-ahead stop here for the moment, for the sake of a test?
 */
bool
la_tid_ring_stops_at_random(LaTidRing *ring)
{
#ifdef LA_TEST
	return la_test_stop_seed != 0 &&
		pg_prng_uint64_range(&ring->test_random, 1, TEST_STOP_ONE_IN) == 1;
#else
	return false;
#endif
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

	if (la_test_stop_seed != 0)
		depth = pg_prng_uint64_range(&ring->test_random, 1, depth);
	while (ring->filled - ring->consumed < depth && la_tid_ring_fill(ring))
		;
#endif
}
