/*-------------------------------------------------------------------------
 *
 * la_join_scan_rows.c
 *	  the rows behind that of a scan, on the same page, and the pages that their subplans want
 *
 * When core's scan comes to a page of its table it finds out which rows are
 * visible, all at once, and keeps the page pinned until the last of them.  So
 * the values that subplans will be called with are there without another look
 * at visibility, and nothing is evaluated early: no filter, no function, no
 * error.  What is asked for them is in la_join_ask.c, as for joins.
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
#include "join/la_join_scan_rows.h"
#include "prefetch/la_wake.h"
#include "statistics/la_stats.h"

/*
 * A scan with a higher number in its plan is not searched for there, which
 * would take longer than some reads: each of many partitions would be.
 */
#define FAR_NODES 4096

struct LaJoinScanRows
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

/*
 * Makes what is kept for a scan whose subplans have had a page read, or says in the node why
 * not, and returns NULL.
 */
LaJoinScanRows *
la_join_scan_rows_create(ScanState *scan, LaNode *node)
{
	MemoryContext query_context = scan->ps.state->es_query_cxt;
	MemoryContext old = MemoryContextSwitchTo(query_context);
	LaJoinScanRows *rows = palloc0_object(LaJoinScanRows);

	rows->node = node;
	rows->heap = (HeapScanDesc) scan->ss_currentScanDesc;
	if (node->query->ring_bytes + LA_JOIN_ASK_BYTES > LA_STATEMENT_BYTES)
		node->reason = LA_REASON_MEMORY;
	else if (scan->ss_currentRelation->rd_tableam != GetHeapamTableAmRoutine())
		node->reason = LA_REASON_TABLE_AM;
	else if ((rows->heap->rs_base.rs_flags & SO_ALLOW_PAGEMODE) == 0)
		node->reason = LA_REASON_SNAPSHOT;
	else if (!la_join_ask_init(&rows->ask, la_join_outer_of_scan(scan), node))
		node->reason = LA_REASON_INNER_SIDE;
	if (node->reason != LA_REASON_NONE)
	{
		la_stats_recount(node->feature, node->reason, node->query->is_slice);
		pfree(rows);
		MemoryContextSwitchTo(old);
		return NULL;
	}
	rows->descriptor = CreateTupleDescCopyConstr(RelationGetDescr(scan->ss_currentRelation));
	rows->most_rows = la_join_ring_rows(&rows->ring,
										Min(4 * rows->ask.most_requests, MaxHeapTuplesPerPage),
										rows->descriptor);
	node->query->ring_bytes += GetMemoryChunkSpace(rows) +
		GetMemoryChunkSpace(rows->ask.targets) + GetMemoryChunkSpace(rows->descriptor);
	rows->block = InvalidBlockNumber;
	rows->may_stop = scan->ps.plan->plan_node_id > FAR_NODES ||
		la_join_end(node) == LA_JOIN_MAY_STOP;
	rows->limit_counts = rows->may_stop && la_join_end_limit_counts(node);
	MemoryContextSwitchTo(old);
	return rows;
}

/*
 * A subplan had a page read while nothing was asked for.  Returns whether something is now.
 */
bool
la_join_scan_rows_wake(LaJoinScanRows *rows)
{
	LaQuery    *query = rows->node->query;

	/*
	 * Memory of the ring, of slots for all of its rows, of a page's rows in
	 * them, and of the rest.
	 */
	Size		bytes = la_join_ring_bytes(&rows->ring, rows->descriptor) +
		2 * BLCKSZ + LA_JOIN_ASK_BYTES;

	if (query->ring_bytes + bytes > LA_STATEMENT_BYTES ||
		!la_join_ask_may_wake(&rows->ask))
		return false;
	if (rows->block != InvalidBlockNumber)
		rows->node->counters.restarts++;
	else
		rows->node->counters.scans++;
	rows->context = AllocSetContextCreate(query->estate->es_query_cxt,
										  "pg_lookahead rows of a page",
										  ALLOCSET_DEFAULT_SIZES);
	rows->ring.rows = MemoryContextAllocZero(rows->context,
											 (rows->ring.mask + 1) * sizeof(LaJoinRow));
	rows->bytes = bytes;
	query->ring_bytes += bytes;
	rows->row_limit = la_wake_forced() ? rows->most_rows : 1;
	la_join_ask_open(&rows->ask, rows->context);
	la_join_ask_start(&rows->ask);
	rows->block = InvalidBlockNumber;
	return true;
}

bool
la_join_scan_rows_is_awake(const LaJoinScanRows *rows)
{
	return rows->ring.rows != NULL;
}

/*
 * Forgets all rows; the next one will be at this position.
 */
static void
drop_rows(LaJoinScanRows *rows, uint32 position)
{
	LaJoinRing *ring = &rows->ring;

	while (ring->head != ring->tail)
		ExecClearTuple(la_join_row(ring, ring->head++)->slot);
	ring->head = ring->tail = position;
	la_join_ask_reset(&rows->ask);
}

/*
 * Nothing is asked for any more until the scan wakes again.
 */
void
la_join_scan_rows_end(LaJoinScanRows *rows)
{
	la_join_ask_hand_out(&rows->ask, NULL);
	la_join_ask_stop(&rows->ask);
	drop_rows(rows, 0);
	MemoryContextDelete(rows->context);
	rows->ring.rows = NULL;
	rows->node->query->ring_bytes -= rows->bytes;
	rows->bytes = 0;
}

/*
 * Takes the next row of the page, and asks for its pages.  Mirrors a part of
 * heapgettup_pagemode() in heapam.c.
 */
static void
copy_row(LaJoinScanRows *rows)
{
	LaJoinRing *ring = &rows->ring;
	LaJoinRow  *row = la_join_row(ring, ring->tail);
	HeapScanDesc heap = rows->heap;
	OffsetNumber offset = heap->rs_vistuples[ring->tail];
	Page		block = BufferGetPage(heap->rs_cbuf);
	ItemId		item = PageGetItemId(block, offset);
	HeapTupleData tuple;
	MemoryContext old = MemoryContextSwitchTo(rows->context);

	tuple.t_data = (HeapTupleHeader) PageGetItem(block, item);
	tuple.t_len = ItemIdGetLength(item);
	tuple.t_tableOid = RelationGetRelid(heap->rs_base.rs_rd);
	ItemPointerSet(&tuple.t_self, rows->block, offset);
	if (row->slot == NULL)
		row->slot = MakeTupleTableSlot(rows->descriptor, &TTSOpsHeapTuple);
	ExecStoreHeapTuple(heap_copytuple(&tuple), row->slot, true);
	MemoryContextSwitchTo(old);
	la_join_ask_for_row(&rows->ask, ring, row);
	ring->tail++;
}

/*
 * Copies rows and asks for their pages, as far as that is allowed.  False when it shall not
 * any more.
 */
static bool
ask_ahead(LaJoinScanRows *rows)
{
	LaJoinRing *ring = &rows->ring;
	uint32		limit;
	bool		at_end;

	rows->row_limit = Min(rows->row_limit * 2, rows->most_rows);
	limit = rows->row_limit;
	if (rows->may_stop)
		limit = Min(limit, la_join_rows_wanted(rows->node, rows->limit_counts, rows->used,
											   PG_INT64_MAX));	/* it gives one row for
																 * each */
	la_join_ask_grow(&rows->ask);
	do
	{
		at_end = ring->tail >= rows->heap->rs_ntuples;
		la_join_ask_waiting(&rows->ask, ring, at_end);
		if (la_join_ask_is_over(&rows->ask))
			return false;
		if (at_end || ring->tail - ring->head >= limit ||
			la_join_ask_is_full(&rows->ask))
			return true;
		copy_row(rows);
	} while (true);
}

/*
 * Does the scan go forward, and its descriptor look as core leaves it (relies
 * on heapgettup_pagemode() in heapam.c)?
 */
static bool
is_on_row(const LaJoinScanRows *rows)
{
	HeapScanDesc heap = rows->heap;

	return ScanDirectionIsForward(rows->node->query->estate->es_direction) &&
		BufferIsValid(heap->rs_cbuf) && heap->rs_cindex < heap->rs_ntuples &&
		ItemPointerGetBlockNumber(&heap->rs_ctup.t_self) == heap->rs_cblock &&
		ItemPointerGetOffsetNumber(&heap->rs_ctup.t_self) ==
		heap->rs_vistuples[heap->rs_cindex];
}

/*
 * The row at this position of the scan's page will be evaluated now; those
 * before it are done with.  A scan that does not go forward has begun anew.
 */
static void
go_to_row(LaJoinScanRows *rows, uint32 position)
{
	LaJoinRing *ring = &rows->ring;
	BlockNumber block = rows->heap->rs_cblock;

	if (block < rows->block || (block == rows->block && position <= rows->position))
		rows->used = 0;
	rows->used++;
	rows->position = position;
	if (block != rows->block || position < ring->head)
	{
		drop_rows(rows, position + 1);
		rows->block = block;
		return;
	}
	while (ring->head != ring->tail && ring->head < position)
	{
		LaJoinRow  *row = la_join_row(ring, ring->head++);

		la_join_ask_retire(&rows->ask, row);
		ExecClearTuple(row->slot);
	}
	if (ring->head == ring->tail)
		ring->head = ring->tail = position + 1;
}

/*
 * The scan has come to another row, of which nothing was evaluated so far: asks for pages of those
 * behind it.  False when it shall not any more.
 */
bool
la_join_scan_rows_advance(LaJoinScanRows *rows)
{
	LaJoinRing *ring = &rows->ring;
	bool		goes_on = true;

	if (is_on_row(rows))
	{
		go_to_row(rows, rows->heap->rs_cindex);
		goes_on = ask_ahead(rows);
	}
	else
		drop_rows(rows, 0);
	la_join_ask_hand_out(&rows->ask,
						 ring->head != ring->tail && ring->head == rows->heap->rs_cindex ?
						 la_join_row(ring, ring->head) : NULL);
	return goes_on;
}
