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
 * Rows have memory from the wake of a scan to its end: those of partitions come one after another.
 *
 * Reads HeapScanDescData of heapam.h and TableScanDescData of relscan.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "join/la_join_ask.h"
#include "join/la_join_end.h"
#include "join/la_join_page.h"
#include "prefetch/la_wake.h"
#include "statistics/la_stats.h"

struct LaJoinPage
{
	LaNode	   *node;
	HeapScanDesc heap;
	MemoryContext context;		/* of the rows, while the scan is awake */
	TupleDesc	descriptor;
	BlockNumber block;			/* which they are on */
	bool		may_stop;		/* may rows of the scan be left unread? */
	bool		limit_counts;	/* does a Limit say how many are wanted? */
	uint32		position;		/* of the row that is evaluated */
	uint64		used;			/* rows since the scan began, maybe anew */
	uint32		most_rows;
	uint32		row_limit;		/* for the moment */
	Size		bytes;			/* of the rows and the ring, in ring_bytes */
	LaJoinRing	ring;			/* positions are those in rs_vistuples */
	LaJoinAsk	ask;
};

static bool ask_ahead(LaJoinPage *page);
static bool is_on_row(const LaJoinPage *page);
static void go_to_row(LaJoinPage *page, uint32 position);
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
	if (scan->ss_currentRelation->rd_tableam != GetHeapamTableAmRoutine())
		node->reason = LA_REASON_TABLE_AM;
	else if ((page->heap->rs_base.rs_flags & SO_ALLOW_PAGEMODE) == 0)
		node->reason = LA_REASON_SNAPSHOT;
	else if (!la_join_ask_init(&page->ask, la_join_outer_of_scan(scan), node))
		node->reason = LA_REASON_INNER_SIDE;
	if (node->reason != LA_REASON_NONE)
	{
		la_stats_recount(node->feature, node->reason, node->query->is_slice);
		pfree(page);
		MemoryContextSwitchTo(old);
		return NULL;
	}
	page->descriptor = CreateTupleDescCopyConstr(RelationGetDescr(scan->ss_currentRelation));
	page->most_rows = la_join_ring_rows(&page->ring,
										Min(4 * page->ask.most_requests, MaxHeapTuplesPerPage),
										page->descriptor);
	page->block = InvalidBlockNumber;
	page->may_stop = la_join_end(node) == LA_JOIN_MAY_STOP;
	page->limit_counts = la_join_end_limit_counts(node);
	MemoryContextSwitchTo(old);
	return page;
}

/*
 * A subplan had a page read while nothing was asked for.  Returns whether something is now.
 */
bool
la_join_page_wake(LaJoinPage *page)
{
	LaQuery    *query = page->node->query;

	/*
	 * Memory of the ring, of slots for all of its rows, of a page's rows in
	 * them, and of the rest.
	 */
	Size		bytes = la_join_ring_bytes(&page->ring, page->descriptor) +
		2 * BLCKSZ + LA_JOIN_ASK_BYTES;

	if (query->ring_bytes + bytes > LA_STATEMENT_BYTES ||
		!la_join_ask_may_wake(&page->ask))
		return false;
	if (page->block != InvalidBlockNumber)
		page->node->counters.restarts++;
	else
		page->node->counters.scans++;
	page->context = AllocSetContextCreate(query->estate->es_query_cxt,
										  "pg_lookahead rows of a page",
										  ALLOCSET_DEFAULT_SIZES);
	page->ring.rows = MemoryContextAllocZero(page->context,
											 (page->ring.mask + 1) * sizeof(LaJoinRow));
	page->bytes = bytes;
	query->ring_bytes += bytes;
	page->row_limit = la_wake_forced() ? page->most_rows : 1;
	la_join_ask_open(&page->ask, page->context);
	la_join_ask_start(&page->ask);
	page->block = InvalidBlockNumber;
	return true;
}

bool
la_join_page_is_awake(const LaJoinPage *page)
{
	return page->ring.rows != NULL;
}

/*
 * Nothing is asked for any more until the scan wakes again.
 */
void
la_join_page_end(LaJoinPage *page)
{
	la_join_ask_hand_out(&page->ask, NULL);
	la_join_ask_stop(&page->ask);
	drop_rows(page, 0);
	MemoryContextDelete(page->context);
	page->ring.rows = NULL;
	page->node->query->ring_bytes -= page->bytes;
	page->bytes = 0;
}

/*
 * The scan has come to another row, of which nothing was evaluated so far: asks for pages of those
 * behind it.  False when it shall not any more.
 */
bool
la_join_page_row(LaJoinPage *page)
{
	LaJoinRing *ring = &page->ring;
	bool		goes_on = true;

	if (is_on_row(page))
	{
		go_to_row(page, page->heap->rs_cindex);
		goes_on = ask_ahead(page);
	}
	else
		drop_rows(page, 0);
	la_join_ask_hand_out(&page->ask,
						 ring->head != ring->tail && ring->head == page->heap->rs_cindex ?
						 la_join_row(ring, ring->head) : NULL);
	return goes_on;
}

/*
 * Copies rows and asks for their pages, as far as that is allowed.  False when it shall not
 * any more.
 */
static bool
ask_ahead(LaJoinPage *page)
{
	LaJoinRing *ring = &page->ring;
	uint32		limit;
	bool		at_end;

	page->row_limit = Min(page->row_limit * 2, page->most_rows);
	limit = page->row_limit;
	if (page->may_stop)
		limit = Min(limit, la_join_end_rows(page->node, page->limit_counts, page->used,
											PG_INT64_MAX)); /* it gives one row for
															 * each */
	la_join_ask_grow(&page->ask);
	do
	{
		at_end = ring->tail >= page->heap->rs_ntuples;
		la_join_ask_waiting(&page->ask, ring, at_end);
		if (la_join_ask_is_over(&page->ask))
			return false;
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
 * The row at this position of the scan's page will be evaluated now; those before it are done with.  A scan that does not
 * go forward has begun anew.
 */
static void
go_to_row(LaJoinPage *page, uint32 position)
{
	LaJoinRing *ring = &page->ring;
	BlockNumber block = page->heap->rs_cblock;

	if (block < page->block || (block == page->block && position <= page->position))
		page->used = 0;
	page->used++;
	page->position = position;
	if (block != page->block || position < ring->head)
	{
		drop_rows(page, position + 1);
		page->block = block;
		return;
	}
	while (ring->head != ring->tail && ring->head < position)
	{
		LaJoinRow  *row = la_join_row(ring, ring->head++);

		la_join_ask_retire(&page->ask, row);
		ExecClearTuple(row->slot);
	}
	if (ring->head == ring->tail)
		ring->head = ring->tail = position + 1;
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
