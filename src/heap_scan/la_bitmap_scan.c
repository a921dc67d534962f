/*-------------------------------------------------------------------------
 *
 * la_bitmap_scan.c
 *	  bitmap heap scans that ask for their pages ahead, in ranges
 *
 * The scan sleeps until a page had to be read: bitmap_next() makes the calls
 * of BitmapHeapNext(), and the stream in the scan descriptor is core's.  Then
 * that stream is taken the place of by ours (la_stream_switch.c), whose callback gives
 * it the same blocks in the same order (la_bitmap_window.c).  So rows, exact and
 * lossy counts, rechecks, pruning and predicate locks are core's.
 *
 * A parallel scan is executed by core, which alone can share its bitmap, and has
 * our stream from the beginning.  Its processes do not change to core's way of
 * reading (la_stream_switch.c), which would have them take turns at single blocks.
 *
 * Reads BitmapHeapScanState of execnodes.h, HeapScanDescData of heapam.h,
 * TableScanDescData of relscan.h and TBMIterateResult of tidbitmap.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/parallel.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"

#include "attach/la_asleep.h"
#include "attach/la_attach.h"
#include "attach/la_core_exec.h"
#include "heap_scan/la_bitmap_window.h"
#include "heap_scan/la_heap_feature.h"
#include "heap_scan/la_heap_reason.h"
#include "heap_scan/la_stream_switch.h"
#include "la_compat.h"
#include "prefetch/la_advice.h"
#include "prefetch/la_request.h"
#include "prefetch/la_wake.h"

typedef struct LaBitmapScan
{
	LaNode	   *node;
	LaBitmapWindow window;
	LaStreamSwitch streams;
	LaTakeOver	take_over;
	LaWake		wake;			/* looks at pages */
} LaBitmapScan;

/*
 * What is kept for a node that has woken, or NULL.
 */
static LaBitmapScan *
find_state(BitmapHeapScanState *node)
{
	LaNode	   *registered = la_registry_find(&node->ss.ps);

	return registered != NULL ? registered->state : NULL;
}

/*
 * Does the scan meet pages that are not in buffers?  A cursor goes on without
 * looking ahead when that was switched off between two fetches.
 */
static bool
must_look_ahead(LaBitmapScan *state)
{
	if (state->node->asked_above ||
		!la_feature_enabled(LA_FEATURE_BITMAP_SCAN) ||
		!la_wake_is_wanted(&state->wake))
		return false;
	if (!state->wake.awake)
	{
		/*
		 * The first page of this bitmap had to be read, or the first after
		 * many.
		 */
		if (!state->wake.woken)
			state->node->counters.scans++;
		la_wake_up(&state->wake);
		la_stream_switch_woken(&state->streams);
	}
	return true;
}

/*
 * May the scan go core's way where that is as fast?  Not in a query that may stand idle
 * between two rows, because core's way keeps many pages pinned.
 */
static inline bool
may_change(const LaBitmapScan *state)
{
	return !state->window.parallel &&
		!(state->node->query->bounded && !IsParallelWorker());
}

/*
 * The stream that the next page should come from.  Where there is no memory to look ahead it is
 * core's, since ours reads nothing ahead by itself.  The node of a parallel scan cannot change.
 */
static LaStreamKind
choose_stream(LaBitmapScan *state)
{
	if (!state->window.parallel && !la_bitmap_window_affordable(&state->window))
		return LA_STREAM_CORE;
	return may_change(state) ? la_stream_switch_choose(&state->streams) : LA_STREAM_ADVISED;
}

/*
 * Read stream callback: the next block to read, and what the bitmap says of it.
 */
static BlockNumber
next_block_of_bitmap(ReadStream *stream, void *callback_private_data,
					 void *per_buffer_data)
{
	LaBitmapScan *state = callback_private_data;
	TBMIterateResult *result = per_buffer_data;

	if (must_look_ahead(state))
	{
		state->streams.changing = choose_stream(state) != state->streams.kind;
		if (state->streams.changing)
			return InvalidBlockNumber;
		if (state->streams.kind == LA_STREAM_ADVISED)
			la_bitmap_window_look_ahead(&state->window);
	}
	if (!la_bitmap_window_next(&state->window, result))
		return InvalidBlockNumber;
	if (state->wake.awake && may_change(state))
		la_stream_switch_given(&state->streams, result->blockno);
	return result->blockno;
}

/*
 * Wakes a node: makes what is kept for it, with a stream of our own that is not in
 * use.  Returns NULL when the scan has to stay with core.
 */
static LaBitmapScan *
make_bitmap_scan(BitmapHeapScanState *node)
{
	TableScanDesc scan = node->ss.ss_currentScanDesc;
	EState	   *estate = node->ss.ps.state;
	LaNode	   *registered;
	LaBitmapScan *state;

	if (la_heap_scan_is_small(scan, LA_SMALL_TABLE))
		return NULL;
	registered = la_attach_wake(&node->ss.ps, LA_FEATURE_BITMAP_SCAN);
	if (registered == NULL || !la_heap_scan_layout_as_expected(registered, scan))
		return NULL;

	state = MemoryContextAllocZero(estate->es_query_cxt, sizeof(LaBitmapScan));
	state->node = registered;
	state->window.heap = (HeapScanDesc) scan;
	state->window.query = registered->query;
	state->window.parallel = node->pstate != NULL;
	state->window.advice = la_advice_create(scan->rs_rd, estate->es_query_cxt,
											&registered->counters);
	la_stream_switch_init(&state->streams, (HeapScanDesc) scan,
						  estate->es_query_cxt, next_block_of_bitmap, state);
	registered->state = state;
	return state;
}

/*
 * Begins the scan as BitmapTableScanSetup() does when it finds none.  The
 * iterator belongs to a bitmap that is yet to be set; core does not look at it
 * before, but would clean it up.
 */
static void
begin_bitmap_scan(BitmapHeapScanState *node)
{
	TableScanDesc scan;
	LaBitmapScan *state;

	scan = la_compat_beginscan_bm(node->ss.ss_currentRelation,
								  node->ss.ps.state->es_snapshot);
	memset(&scan->st.rs_tbmiterator, 0, sizeof(scan->st.rs_tbmiterator));
	node->ss.ss_currentScanDesc = scan;

	if (node->pstate == NULL && !la_wake_at_start())
		return;
	state = make_bitmap_scan(node);
	if (state != NULL)
		la_stream_switch_begin(&state->streams);
}

static void
end_take_over(LaBitmapScan *state, bool same_bitmap)
{
	la_stream_switch_begin(&state->streams);
	la_take_over_finish(&state->take_over, &state->window.heap->rs_base,
						same_bitmap);
}

/*
 * The scan of a bitmap is about to begin, and sleeps while no more than so
 * many pages have been read.  Advice is prepared here, not when the scan
 * wakes, which is in a callback of the stream.
 */
static void
begin_bitmap(LaBitmapScan *state, int64 reads)
{
	LaAdvice   *advice = state->window.advice;

	if (la_take_over_is_under_way(&state->take_over))
		end_take_over(state, false);
	la_bitmap_window_start(&state->window);
	la_stream_switch_start(&state->streams);
	la_wake_start(&state->wake, reads);
	la_advice_start(advice, la_request_limit(advice->relation));
}

/*
 * Builds the bitmap, and begins the scan if need be.  Mirrors
 * BitmapTableScanSetup() in nodeBitmapHeapscan.c for a scan that is not parallel.
 */
static void
set_up(BitmapHeapScanState *node)
{
	LaBitmapScan *state;

	node->tbm = (TIDBitmap *) MultiExecProcNode(outerPlanState(node));
	if (!node->tbm || !IsA(node->tbm, TIDBitmap))
		elog(ERROR, "unrecognized result from subplan");

	if (node->ss.ss_currentScanDesc == NULL)
		begin_bitmap_scan(node);
	state = find_state(node);
	if (state != NULL)
		begin_bitmap(state, la_reads());
	node->ss.ss_currentScanDesc->st.rs_tbmiterator =
		tbm_begin_iterate(node->tbm, NULL, InvalidDsaPointer);
	node->initialized = true;
}

/*
 * The scan had a page read, after so many, while core's first stream was in use:
 * has that one come to its end, and ours follow.
 */
static void
take_over(BitmapHeapScanState *node, int64 reads)
{
	LaBitmapScan *state;

	if (find_state(node) != NULL || (state = make_bitmap_scan(node)) == NULL)
		return;

	begin_bitmap(state, reads);
	la_take_over_begin(&state->take_over, node->ss.ss_currentScanDesc,
					   node->ss.ps.state->es_query_cxt);
	state->streams.changing = true;
}

static void
change_stream(LaBitmapScan *state)
{
	if (!la_take_over_is_under_way(&state->take_over))
	{
		la_stream_switch_change(&state->streams);
		return;
	}
	state->streams.changing = false;
	end_take_over(state, true);
}

/*
 * Access method for ExecScan(): the next row, or an empty slot.  Mirrors
 * BitmapHeapNext() in nodeBitmapHeapscan.c, with a look at whether a row had a
 * page read: for each one, because rows that a filter drops never leave the node.
 */
static TupleTableSlot *
bitmap_next(BitmapHeapScanState *node)
{
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	if (unlikely(!node->initialized))
		set_up(node);

	for (;;)
	{
		int64		reads = la_reads();
		bool		found;

		found = table_scan_bitmap_next_tuple(node->ss.ss_currentScanDesc,
											 slot, &node->recheck,
											 &node->stats.lossy_pages,
											 &node->stats.exact_pages);
		if (unlikely(la_asleep_missed(&node->ss.ps, reads)))
			take_over(node, reads);
		if (!found)
		{
			LaBitmapScan *state = find_state(node);

			if (state == NULL || !state->streams.changing)
				return ExecClearTuple(slot);
			change_stream(state);
			continue;
		}

		CHECK_FOR_INTERRUPTS();
		if (node->recheck)
		{
			econtext->ecxt_scantuple = slot;
			if (!ExecQualAndReset(node->bitmapqualorig, econtext))
			{
				InstrCountFiltered2(node, 1);
				ExecClearTuple(slot);
				continue;
			}
		}
		return slot;
	}
}

/*
 * Recheck method for ExecScan(), for EvalPlanQual.  Mirrors
 * BitmapHeapRecheck() in nodeBitmapHeapscan.c.
 */
static bool
bitmap_recheck(BitmapHeapScanState *node, TupleTableSlot *slot)
{
	ExprContext *econtext = node->ss.ps.ps_ExprContext;

	econtext->ecxt_scantuple = slot;
	return ExecQualAndReset(node->bitmapqualorig, econtext);
}

/*
 * Core executes the node of a parallel scan.  It sets "initialized" when it has
 * a bitmap, and only ExecReScanBitmapHeapScan() clears it, which frees the
 * bitmap that the window points into.  Relies on BitmapTableScanSetup() and
 * ExecReScanBitmapHeapScan() in nodeBitmapHeapscan.c.
 */
static TupleTableSlot *
parallel_exec(BitmapHeapScanState *node)
{
	if (unlikely(!node->initialized))
	{
		LaBitmapScan *state;

		if (node->ss.ss_currentScanDesc == NULL)
			begin_bitmap_scan(node);
		state = find_state(node);
		if (state != NULL)
			begin_bitmap(state, la_reads());
	}
	return (*la_core_exec_of(&node->ss.ps)) (&node->ss.ps);
}

/*
 * ExecProcNode of an attached node.  Mirrors ExecBitmapHeapScan() in
 * nodeBitmapHeapscan.c.
 */
static TupleTableSlot *
bitmap_exec(PlanState *planstate)
{
	BitmapHeapScanState *node = castNode(BitmapHeapScanState, planstate);

	if (unlikely(node->pstate != NULL))
		return parallel_exec(node);
	return ExecScan(&node->ss,
					(ExecScanAccessMtd) bitmap_next,
					(ExecScanRecheckMtd) bitmap_recheck);
}

const LaFeatureMethods la_bitmap_scan_methods = {
	.info = &la_bitmap_scan_feature,
	.nodes = {{T_BitmapHeapScanState, bitmap_exec}},
	.classify = la_heap_scan_classify,
};
