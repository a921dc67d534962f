/*-------------------------------------------------------------------------
 *
 * la_join_page.c
 *	  the rows behind that of a scan, on the same page, and the pages that their subplans want
 *
 * When core's scan comes to a page of its table it finds out which rows are visible, all at once, and keeps the
 * page pinned until the last of them.  So the values that subplans will be called with are there without
 * another look at visibility, and nothing is evaluated early: no filter, no function, no error.  What is
 * asked for them is in la_join_ask.c, as for joins.
 *
 * Not every row comes to its subplan: a filter may drop it, a CASE pass it over.  So when a row
 * is done with, it is looked whether somebody has read what was asked for it.
 *
 * Reads HeapScanDescData of heapam.h and TableScanDescData of relscan.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "join/la_join_ask.h"
#include "join/la_join_page.h"
#include "prefetch/la_shared_buffer.h"
#include "prefetch/la_wake.h"
#include "statistics/la_stats.h"

/* Rows after which it is counted for how many the pages were read, and how many it has to be: arbitrary. */
#define ROWS_PER_LOOK 32
#define USED_ROWS 16

/* What is kept beside the ring, as a rule, in bytes: copies of a page's rows are most of it. */
#define FIXED_BYTES (3 * BLCKSZ)

struct LaJoinPage
{
	LaNode	   *node;
	HeapScanDesc heap;
	MemoryContext context;		/* of the rows */
	TupleDesc	descriptor;
	BlockNumber block;			/* which they are on */
	uint32		most_rows;
	uint32		row_limit;		/* for the moment */
	uint32		asked_rows;		/* done with since the last look */
	uint32		used_rows;		/* those whose page was read */
	LaJoinRing	ring;			/* positions are those in rs_vistuples */
	LaJoinAsk	ask;
};

static bool is_suitable(LaJoinPage *page, ScanState *scan);
static bool is_on_row(const LaJoinPage *page);
static void go_to_row(LaJoinPage *page, uint32 position);
static void retire_row(LaJoinPage *page);
static bool is_in_vain(LaJoinPage *page);
static void copy_row(LaJoinPage *page);
static void drop_rows(LaJoinPage *page, uint32 position);

/*
 * Makes what is kept for a scan whose subplans have had a page read, or says in the node why
 * not, and returns NULL.
 */
LaJoinPage *
la_join_page_create(ScanState *scan, LaNode *node)
{
	MemoryContext query_context = scan->ps.state->es_query_cxt;
	MemoryContext old = MemoryContextSwitchTo(query_context);
	LaJoinPage *page = palloc0_object(LaJoinPage);

	page->node = node;
	page->heap = (HeapScanDesc) scan->ss_currentScanDesc;
	if (!is_suitable(page, scan))
	{
		la_stats_recount(node->feature, node->reason, node->query->is_slice);
		pfree(page);
		MemoryContextSwitchTo(old);
		return NULL;
	}
	page->context = AllocSetContextCreate(query_context,
										  "pg_lookahead rows of a page",
										  ALLOCSET_DEFAULT_SIZES);
	page->descriptor = CreateTupleDescCopy(RelationGetDescr(scan->ss_currentRelation));
	page->most_rows = Min(4 * page->ask.most_requests, MaxHeapTuplesPerPage);
	page->ring.mask = pg_nextpower2_32(page->most_rows) - 1;
	page->ring.rows = palloc0_array(LaJoinRow, page->ring.mask + 1);
	node->query->ring_bytes += FIXED_BYTES +
		(page->ring.mask + 1) * sizeof(LaJoinRow);
	page->block = InvalidBlockNumber;
	MemoryContextSwitchTo(old);
	return page;
}

static bool
is_suitable(LaJoinPage *page, ScanState *scan)
{
	LaNode	   *node = page->node;
	TableScanDesc descriptor = &page->heap->rs_base;

	if (scan->ss_currentRelation->rd_tableam != GetHeapamTableAmRoutine())
		node->reason = LA_REASON_TABLE_AM;
	else if ((descriptor->rs_flags & SO_ALLOW_PAGEMODE) == 0)
		node->reason = LA_REASON_SNAPSHOT;
	else if (node->query->ring_bytes + FIXED_BYTES > LA_STATEMENT_BYTES)
		node->reason = LA_REASON_MEMORY;
	else if (!la_join_ask_init(&page->ask, la_join_outer_of_scan(scan), node))
		node->reason = LA_REASON_INNER_SIDE;
	return node->reason == LA_REASON_NONE;
}

/*
 * A subplan had a page read while nothing was asked for.  Returns whether something is now.
 */
bool
la_join_page_wake(LaJoinPage *page)
{
	if (!la_join_ask_may_wake(&page->ask))
		return false;
	if (page->block != InvalidBlockNumber)
		page->node->counters.restarts++;
	else
		page->node->counters.scans++;
	page->row_limit = la_wake_forced() ? page->most_rows : 1;
	page->asked_rows = page->used_rows = 0;
	la_join_ask_start(&page->ask);
	drop_rows(page, 0);
	page->block = InvalidBlockNumber;
	return true;
}

/*
 * The scan has come to another row, of which nothing was evaluated so far: asks for pages of those
 * behind it.  False when it shall not any more.
 */
bool
la_join_page_row(LaJoinPage *page)
{
	LaJoinRing *ring = &page->ring;
	HeapScanDesc heap = page->heap;
	uint32		limit;
	bool		at_end;

	if (!is_on_row(page))
		return true;
	go_to_row(page, heap->rs_cindex);
	page->row_limit = Min(page->row_limit * 2, page->most_rows);
	limit = Min(la_registry_rows_wanted(page->node), page->row_limit);
	la_join_ask_grow(&page->ask);
	do
	{
		at_end = ring->tail >= heap->rs_ntuples;
		la_join_ask_waiting(&page->ask, ring, at_end);
		if (la_join_ask_is_over(&page->ask) || is_in_vain(page))
		{
			drop_rows(page, 0);
			la_join_ask_hand_out(&page->ask, NULL);
			la_join_ask_stop(&page->ask);
			return false;
		}
		if (at_end || ring->tail - ring->head >= limit ||
			la_join_ask_is_full(&page->ask))
			return true;
		copy_row(page);
	} while (true);
}

/*
 * Does the scan go forward, and its descriptor look as core leaves it (relies on heapgettup_pagemode() in
 * heapam.c)?
 */
static bool
is_on_row(const LaJoinPage *page)
{
	HeapScanDesc heap = page->heap;

	return ScanDirectionIsForward(page->node->query->estate->es_direction) &&
		BufferIsValid(heap->rs_cbuf) && heap->rs_cindex < heap->rs_ntuples &&
		ItemPointerGetBlockNumber(&heap->rs_ctup.t_self) == heap->rs_cblock &&
		ItemPointerGetOffsetNumber(&heap->rs_ctup.t_self) ==
		heap->rs_vistuples[heap->rs_cindex];
}

/*
 * The row at this position of the scan's page will be evaluated now; those before it are done with.
 */
static void
go_to_row(LaJoinPage *page, uint32 position)
{
	LaJoinRing *ring = &page->ring;

	if (page->heap->rs_cblock != page->block || position < ring->head)
	{
		while (page->block != InvalidBlockNumber && ring->head != ring->tail)
			retire_row(page);
		drop_rows(page, position + 1);
		page->block = page->heap->rs_cblock;
	}
	while (ring->head != ring->tail && ring->head < position)
		retire_row(page);
	if (ring->head == ring->tail)
	{
		ring->head = ring->tail = position + 1;
		la_join_ask_hand_out(&page->ask, NULL);
	}
	else
		la_join_ask_hand_out(&page->ask, la_join_row(ring, ring->head));
}

/*
 * The oldest row is done with.
 */
static void
retire_row(LaJoinPage *page)
{
	LaJoinRow  *row = la_join_row(&page->ring, page->ring.head++);

	if (row->requests > 0)
	{
		page->asked_rows++;
		if (BufferIsValid(la_shared_buffer_find(row->asked_of->table, row->asked)))
			page->used_rows++;
	}
	la_join_ask_retire(&page->ask, row);
	ExecClearTuple(row->slot);
}

/*
 * Were pages asked for that nobody has read?  Then the scan wakes the less often the more often that
 * was so.
 */
static bool
is_in_vain(LaJoinPage *page)
{
	bool		result;

	if (page->asked_rows < ROWS_PER_LOOK)
		return false;
	result = page->used_rows < USED_ROWS;
	page->asked_rows = page->used_rows = 0;
	if (result)
		page->ask.asked = false;
	return result;
}

/*
 * Takes the next row of the page, and asks for its pages.  Mirrors a part of
 * heapgettup_pagemode() in heapam.c.
 */
static void
copy_row(LaJoinPage *page)
{
	LaJoinRing *ring = &page->ring;
	LaJoinRow  *row = la_join_row(ring, ring->tail);
	HeapScanDesc heap = page->heap;
	OffsetNumber offset = heap->rs_vistuples[ring->tail];
	Page		block = BufferGetPage(heap->rs_cbuf);
	ItemId		item = PageGetItemId(block, offset);
	HeapTupleData tuple;
	MemoryContext old = MemoryContextSwitchTo(page->context);

	tuple.t_data = (HeapTupleHeader) PageGetItem(block, item);
	tuple.t_len = ItemIdGetLength(item);
	tuple.t_tableOid = RelationGetRelid(heap->rs_base.rs_rd);
	ItemPointerSet(&tuple.t_self, page->block, offset);
	if (row->slot == NULL)
		row->slot = MakeTupleTableSlot(page->descriptor, &TTSOpsHeapTuple);
	ExecStoreHeapTuple(heap_copytuple(&tuple), row->slot, true);
	MemoryContextSwitchTo(old);
	la_join_ask_for_row(&page->ask, ring, row);
	ring->tail++;
}

/*
 * Forgets all rows; the next one will be at this position.
 */
static void
drop_rows(LaJoinPage *page, uint32 position)
{
	LaJoinRing *ring = &page->ring;

	while (ring->head != ring->tail)
		ExecClearTuple(la_join_row(ring, ring->head++)->slot);
	ring->head = ring->tail = position;
	la_join_ask_reset(&page->ask);
}
