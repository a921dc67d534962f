/*-------------------------------------------------------------------------
 *
 * la_join_window.c
 *	  the outer rows of a join that were drawn ahead, and the pages asked for them
 *
 * Rows wait in a ring until their turn.  Each is a copy in a slot of the kind
 * that the outer side gives, because the join's expressions were compiled for
 * that, and holds no pin.  With each row that is handed out the ring may have
 * twice as many as before, up to four times the requests that may be in
 * flight.  It has fewer where a Limit wants fewer, and where the copies take
 * too much memory.
 *
 * What is asked for them is in la_join_ask.c.  When nothing has to be any
 * more, the ring is emptied and the join sleeps.
 *
 * A rescan of the join drops the rows.  Nobody calls us for it, but core
 * always calls the callbacks of the node's expression context (relies on
 * ExecReScan() in execAmi.c and ReScanExprContext() in execUtils.c), and
 * forgets them: ours is armed again by the next row.
 *
 * Reads NestLoopState of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/expandeddatum.h"
#include "utils/memutils.h"
#include "varatt.h"

#include "join/la_join_ask.h"
#include "join/la_join_end.h"
#include "join/la_join_judge.h"
#include "join/la_join_window.h"
#include "prefetch/la_wake.h"
#include "statistics/la_stats.h"

/*
 * Rows that a ring may have at once after a rescan, in a join that was awake:
 * arbitrary.  Where a join may be left early, no more than were used the last
 * time: a LIMIT says how many it wants, but not how many outer rows give them.
 */
#define ROWS_AFTER_RESCAN 4

/*
 * Most rows of a ring: arbitrary, with a distance of 1,000 it would be of
 * 4,096, of which each costs memory.
 */
#define MOST_ROWS 1024

/*
 * Most rows of one process of a parallel join, so that no process keeps many from the
 * others: arbitrary.
 */
#define PARALLEL_ROWS 32

/*
 * Plan nodes that are judged for each page missed, in a small part of the time of its
 * read; the first ones, which are free; and how many on the way to a join count as one
 * that is judged.  Arbitrary.
 */
#define NODES_PER_READ 8
#define FEW_NODES 16
#define NODES_PASSED 64

/* Memory of the rows of one ring, in bytes, and its part of work_mem: arbitrary. */
#define MOST_BYTES (1024 * 1024)
#define WORK_MEM_DIVISOR 4

struct LaJoinWindow
{
	LaNode	   *node;
	NestLoopState *join;
	MemoryContext context;		/* of the rows, or NULL */
	Size		row_bytes;		/* of those in the ring, in ring_bytes, too */
	TupleDesc	descriptor;
	const TupleTableSlotOps *ops;

	int			misses;			/* reads that may have woken it, before that
								 * was judged */
	bool		allowed;		/* may rows be drawn ahead? */
	bool		armed;			/* will a rescan be told? */
	bool		handed;			/* has the oldest row been handed out? */
	bool		at_end;			/* has the outer side no more rows? */
	bool		draining;		/* shall no more be drawn? */
	bool		may_stop;		/* may its last rows be left unread? */
	bool		limit_counts;	/* does a Limit say how many are wanted? */
	TupleTableSlot *large;		/* drawn, and too large for a copy, or NULL */
	uint32		most_rows;
	uint32		row_limit;		/* for the moment */
	uint32		used;			/* rows handed out since the last rescan */
	int64		given;			/* part of limit->position that is not of rows
								 * from here: from before the join woke, and
								 * while it slept */
	int64		left;			/* limit->position when it went to sleep */
	bool		resumes;		/* was no row handed out since? */
	LaJoinRing	ring;
	LaJoinAsk	ask;
};

/*
 * Slots of another kind than core's may be a table AM's own: how to copy and
 * measure these is not known.
 */
static LaReason
find_targets(LaJoinWindow *window)
{
	LaNode	   *node = window->node;

	if (node->query->ring_bytes + LA_JOIN_ASK_BYTES > LA_STATEMENT_BYTES)
		return LA_REASON_MEMORY;
	if (window->ops != &TTSOpsVirtual && window->ops != &TTSOpsHeapTuple &&
		window->ops != &TTSOpsMinimalTuple && window->ops != &TTSOpsBufferHeapTuple)
		return LA_REASON_TABLE_AM;
	return la_join_ask_init(&window->ask, la_join_outer_of_loop(window->join), node) ?
		LA_REASON_NONE : LA_REASON_INNER_SIDE;
}

static void
note_reason(LaNode *node)
{
	elog(DEBUG1, "pg_lookahead leaves a node to core: %s",
		 la_reason_text(node->reason));
	la_stats_recount(node->feature, node->reason, node->query->is_slice);
}

/*
 * Makes a window for a join that has had a page read.  NULL if there is
 * nothing to look ahead for: the reason is noted in the node.
 */
LaJoinWindow *
la_join_window_create(NestLoopState *join, LaNode *node)
{
	MemoryContext query_context = join->js.ps.state->es_query_cxt;
	MemoryContext old = MemoryContextSwitchTo(query_context);
	LaJoinWindow *window = palloc0_object(LaJoinWindow);
	bool		fixed;

	window->node = node;
	window->join = join;
	window->ops = ExecGetResultSlotOps(outerPlanState(join), &fixed);
	if (!fixed)
		window->ops = &TTSOpsMinimalTuple;
	node->reason = find_targets(window);
	if (node->reason != LA_REASON_NONE)
	{
		note_reason(node);
		pfree(window);
		MemoryContextSwitchTo(old);
		return NULL;
	}
	window->descriptor = ExecGetResultType(outerPlanState(join));
	if (window->descriptor->tdrefcount >= 0)
		window->descriptor = CreateTupleDescCopy(window->descriptor);
	window->most_rows = Min(4 * window->ask.most_requests, MOST_ROWS);
	if (IsParallelWorker() || node->below_gather)
		window->most_rows = Min(window->most_rows, PARALLEL_ROWS);
	window->most_rows = la_join_ring_rows(&window->ring, window->most_rows,
										  window->descriptor);
	window->draining = true;
	MemoryContextSwitchTo(old);
	return window;
}

/*
 * To judge a large outer side, as one of many partitions, takes longer than
 * some reads, and to find the join in a large plan, too: it pays when about as
 * much has been lost.  Relies on set_plan_refs() in setrefs.c, which numbers
 * the nodes of a plan in their order.
 */
static bool
is_worth_judging(LaJoinWindow *window)
{
	int			before = outerPlanState(window->join)->plan->plan_node_id;
	int			nodes = innerPlanState(window->join)->plan->plan_node_id - before + before / NODES_PASSED;

	return window->allowed || la_wake_forced() ||
		++window->misses * NODES_PER_READ + FEW_NODES >= nodes;
}

/*
 * May rows be drawn ahead?  If they never may, the reason is noted in the
 * node.  It takes a walk over both sides, so it is found out when there is
 * something to gain.
 */
static bool
is_allowed(LaJoinWindow *window)
{
	LaNode	   *node = window->node;

	if (window->allowed)
		return true;
	window->allowed = la_join_judge(window->join, node, &window->may_stop);
	if (window->allowed)
		window->limit_counts = la_join_end_limit_counts(node);
	else if (node->reason != LA_REASON_NONE)
		note_reason(node);
	return window->allowed;
}

/*
 * Memory of the ring, of slots for all of its rows and of what belongs to it, in bytes.
 */
static Size
open_bytes(const LaJoinWindow *window)
{
	return LA_JOIN_ASK_BYTES +
		la_join_ring_bytes(&window->ring, window->descriptor);
}

/*
 * Takes memory for the ring, unless it has some.  False when the statement has none left.
 */
static bool
open_ring(LaJoinWindow *window)
{
	LaQuery    *query = window->node->query;

	if (window->context != NULL)
		return true;
	if (query->ring_bytes + open_bytes(window) > LA_STATEMENT_BYTES)
		return false;
	query->ring_bytes += open_bytes(window);
	window->context = AllocSetContextCreate(window->join->js.ps.state->es_query_cxt,
											"pg_lookahead outer rows",
											ALLOCSET_DEFAULT_SIZES);
	window->ring.rows = MemoryContextAllocZero(window->context,
											   (window->ring.mask + 1) * sizeof(LaJoinRow));
	la_join_ask_open(&window->ask, window->context);
	return true;
}

/*
 * The join has come to its end: what others need for their rows they have.
 * One that began anew will do so again, and keeps it while there is enough.
 */
static void
close_ring(LaJoinWindow *window)
{
	if (window->context == NULL ||
		(window->node->counters.scans > 1 &&
		 window->node->query->ring_bytes <= LA_STATEMENT_BYTES / 2))
		return;
	MemoryContextDelete(window->context);
	window->context = NULL;
	window->node->query->ring_bytes -= open_bytes(window);
}

static void
drop_row(LaJoinWindow *window, LaJoinRow *row)
{
	ExecClearTuple(row->slot);
	window->row_bytes -= row->bytes;
	window->node->query->ring_bytes -= row->bytes;
}

/*
 * Callback: the join begins anew, or ends.
 */
static void
on_rescan(Datum arg)
{
	LaJoinWindow *window = (LaJoinWindow *) DatumGetPointer(arg);
	LaJoinRing *ring = &window->ring;

	if (!la_wake_forced())
		window->row_limit = Min(window->row_limit, ROWS_AFTER_RESCAN / 2);
	if (window->may_stop)
		window->row_limit = Min(window->row_limit, window->used / 2);
	window->armed = false;
	window->handed = false;
	window->used = 0;
	window->given = window->left = 0;
	window->resumes = true;
	window->at_end = false;
	window->large = NULL;
	for (uint32 position = ring->head; position != ring->tail; position++)
		drop_row(window, la_join_row(ring, position));
	ring->head = ring->tail = 0;
	la_join_ask_reset(&window->ask);
	/* Those of joins that were left early add up. */
	if (window->node->query->ring_bytes > LA_STATEMENT_BYTES / 2)
		close_ring(window);
}

/*
 * The first row since the last rescan is wanted: has the next one told to us.
 */
static void
watch_rescan(LaJoinWindow *window)
{
	if (window->armed)
		return;
	RegisterExprContextCallback(window->join->js.ps.ps_ExprContext, on_rescan,
								PointerGetDatum(window));
	window->armed = true;
	window->node->counters.scans++;
}

/*
 * A page was read for the inner side while the join slept.  Returns whether it
 * is awake now; if not, the node may have got a reason why it never will be.
 */
bool
la_join_window_wake(LaJoinWindow *window)
{
	if (!la_join_ask_may_wake(&window->ask) || !is_worth_judging(window) ||
		!is_allowed(window) || !open_ring(window))
		return false;
	if (window->armed)
		window->node->counters.restarts++;
	window->draining = false;
	window->resumes = true;
	window->row_limit = la_wake_forced() ? window->most_rows : 1;
	la_join_ask_start(&window->ask);
	watch_rescan(window);
	return true;
}

/*
 * Has the join no row, and does not want any?
 */
bool
la_join_window_sleeps(const LaJoinWindow *window)
{
	return window->draining && window->ring.head == window->ring.tail &&
		!window->at_end && window->large == NULL;
}

/*
 * Has the ring one row, of which a page of the table is wanted at most?
 */
static bool
is_alone(const LaJoinRing *ring)
{
	return ring->tail - ring->head == 1 && la_join_row(ring, ring->head)->wanted <= 1;
}

static void
end_if_over(LaJoinWindow *window)
{
	if (!la_join_ask_is_over(&window->ask))
		return;
	window->draining = true;
	la_join_ask_stop(&window->ask);
}

/*
 * How many rows the ring may have, the one that is about to be handed out included.
 */
static uint32
rows_allowed(const LaJoinWindow *window)
{
	uint64		wanted = window->may_stop ?
		la_join_rows_wanted(window->node, window->limit_counts, window->used, window->given) : PG_UINT64_MAX;

	return Min(wanted, window->row_limit);
}

static Size
most_bytes(void)
{
	return Min(MOST_BYTES, (Size) work_mem * 1024 / WORK_MEM_DIVISOR);
}

/*
 * Is there memory for another row?  For one there always is.  What a row needs
 * is free again when it is done with, though the allocator may keep it for the
 * next ones.
 */
static bool
has_room(const LaJoinWindow *window)
{
	return window->ring.head == window->ring.tail ||
		(window->row_bytes < most_bytes() &&
		 window->node->query->ring_bytes <= LA_STATEMENT_BYTES);
}

/*
 * Shall a row be copied?  Of one that an expression has made, the values may
 * be larger together than any piece of memory; and one that fills the ring
 * alone, as a sort may give it, is handed on as it is.
 */
static bool
may_copy(TupleTableSlot *slot)
{
	TupleDesc	descriptor = slot->tts_tupleDescriptor;
	Size		bytes = 0;

	if (TTS_IS_MINIMALTUPLE(slot) && ((MinimalTupleTableSlot *) slot)->mintuple != NULL)
		return ((MinimalTupleTableSlot *) slot)->mintuple->t_len < most_bytes();
	if (!TTS_IS_VIRTUAL(slot))
		return true;
	for (int i = 0; i < descriptor->natts; i++)
	{
		int16		length = TupleDescAttr(descriptor, i)->attlen;
		const void *value = DatumGetPointer(slot->tts_values[i]);

		if (slot->tts_isnull[i] || length >= 0)
			continue;
		if (length == -2)
			bytes += strlen(value);
		else if (VARATT_IS_EXTERNAL_EXPANDED(value))
			bytes += EOH_get_flat_size(DatumGetEOHP(slot->tts_values[i]));
		else
			bytes += VARSIZE_ANY(value);
	}
	return bytes < most_bytes();
}

/*
 * Memory of a copy, in bytes.  Reads the kinds of slots of tuptable.h.
 */
static Size
bytes_of(TupleTableSlot *slot)
{
	void	   *copy;

	if (TTS_IS_VIRTUAL(slot))
		copy = ((VirtualTupleTableSlot *) slot)->data;
	else if (TTS_IS_MINIMALTUPLE(slot))
		copy = ((MinimalTupleTableSlot *) slot)->mintuple;
	else
		copy = ((HeapTupleTableSlot *) slot)->tuple;
	return copy != NULL ? GetMemoryChunkSpace(copy) : 0;
}

/*
 * Draws a row from the outer side, and asks for its pages.
 */
static void
draw_row(LaJoinWindow *window)
{
	LaJoinRing *ring = &window->ring;
	LaJoinRow  *row = la_join_row(ring, ring->tail);
	TupleTableSlot *slot;

	watch_rescan(window);
	slot = ExecProcNode(outerPlanState(window->join));
	if (TupIsNull(slot))
	{
		window->at_end = true;
		return;
	}
	if (!may_copy(slot))
	{
		window->large = slot;
		return;
	}
	if (row->slot == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(window->context);

		row->slot = MakeTupleTableSlot(window->descriptor, window->ops);
		MemoryContextSwitchTo(old);
	}
	ExecCopySlot(row->slot, slot);
	ExecMaterializeSlot(row->slot);
	row->bytes = bytes_of(row->slot);
	window->row_bytes += row->bytes;
	window->node->query->ring_bytes += row->bytes;
	la_join_ask_for_row(&window->ask, ring, row);
	ring->tail++;
	if (ring->tail - ring->head > 1)
		window->node->counters.drawn++;
}

/*
 * Draws rows and asks for their pages, as far as that is allowed.  For a row
 * that is alone nothing is asked that its own look-up will not read at once.
 */
static void
look_ahead(LaJoinWindow *window)
{
	LaJoinRing *ring = &window->ring;
	LaJoinAsk  *ask = &window->ask;
	uint32		idle_rows = ask->idle_rows;
	uint32		limit;

	window->row_limit = Min(Max(window->row_limit * 2, 1), window->most_rows);
	limit = rows_allowed(window);
	if (limit <= 1 && ring->head == ring->tail)
	{
		watch_rescan(window);
		ask->idle_rows++;
		end_if_over(window);
		return;
	}
	if (!open_ring(window))
	{
		window->draining = true;
		return;
	}
	la_join_ask_grow(ask);

	for (;;)
	{
		if (!is_alone(ring))
			la_join_ask_waiting(ask, ring, window->at_end);
		else if (window->at_end)
			ask->idle_rows = idle_rows + 1;
		end_if_over(window);
		if (window->at_end || window->draining || window->large != NULL ||
			ring->tail - ring->head >= limit || la_join_ask_is_full(ask) ||
			!has_room(window))
			return;
		draw_row(window);
	}
}

/*
 * The next outer row, or NULL at the end.  False when the caller must ask the outer side for
 * it.
 */
bool
la_join_window_next(LaJoinWindow *window, TupleTableSlot **slot)
{
	LaJoinRing *ring = &window->ring;

	if (window->handed)
	{
		LaJoinRow  *row = la_join_row(ring, ring->head);

		la_join_ask_retire(&window->ask, row);
		drop_row(window, row);
		ring->head++;
		window->handed = false;
	}
	if (window->resumes && window->node->limit != NULL)
		window->given += window->node->limit->position - window->left;
	window->resumes = false;
	if (!window->draining)
		look_ahead(window);
	window->used++;
	if (ring->head == ring->tail)
	{
		*slot = window->large;
		window->large = NULL;
		la_join_ask_hand_out(&window->ask, NULL);
		if (window->at_end)
			close_ring(window);
		else if (window->draining && window->node->limit != NULL)
			window->left = window->node->limit->position;
		return *slot != NULL || window->at_end;
	}
	window->handed = true;
	la_join_ask_hand_out(&window->ask, la_join_row(ring, ring->head));
	*slot = la_join_row(ring, ring->head)->slot;
	return true;
}
