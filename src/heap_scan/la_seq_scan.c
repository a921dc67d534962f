/*-------------------------------------------------------------------------
 *
 * la_seq_scan.c
 *	  sequential scans that ask for their pages ahead
 *
 * Core's stream has a few reads of io_combine_limit in flight, and with
 * io_method = sync no more than the OS reads ahead by itself.  Ours is like
 * core's, with the same limits, and its callback can also tell the kernel which
 * pages come next, in requests of pg_lookahead.bulk_read_size.  By default that
 * is done only where a trial shows that it gains (la_trial.c).
 *
 * Positions number the pages of a scan in its order: page of the table =
 * (start + position) modulo size.  In a parallel scan each process is given
 * chunks of consecutive positions, and asks for those of its chunk only.
 *
 * Reads HeapScanDescData of heapam.h, and TableScanDescData,
 * ParallelBlockTableScanDescData and ParallelBlockTableScanWorkerData of
 * relscan.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/relscan.h"
#include "access/syncscan.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "utils/rel.h"

#include "attach/la_attach.h"
#include "attach/la_core_exec.h"
#include "heap_scan/la_heap_feature.h"
#include "heap_scan/la_heap_reason.h"
#include "la_compat.h"
#include "prefetch/la_request.h"
#include "prefetch/la_residency.h"
#include "prefetch/la_trial.h"
#include "prefetch/la_wake.h"

/*
 * Pages of a request when pg_lookahead.bulk_read_size is -1: 128 kB, what core's
 * streams read at once by default.  The kernel asks for no more than the larger
 * of its read-ahead and the device's largest request at once, and leaves out the
 * rest; so this should not be larger.
 */
#define AUTOMATIC_BULK_READ_SIZE ((128 * 1024) / BLCKSZ)

/*
 * Requests to have ahead: at 128 kB each 4 MB, enough for 1 ms of latency at
 * 4 GB/s.
 */
#define REQUESTS_AHEAD 32

/* How many times as fast asking has to be in a trial. */
#define CLEARLY_FASTER 1.33

/*
 * The part of a trial's usual pages: nothing was asked for before it.
 * Arbitrary, but that 2 MB take long enough to be compared.
 */
#define TRIAL_DIVISOR 4

typedef struct LaSeqScan
{
	LaNode	   *node;
	HeapScanDesc heap;
	LaResidency residency;
	uint32		request_pages;
	bool		on_trial;		/* ask only when it gains */
	LaTrial		trial;

	uint64		position;		/* of the page given to the stream last */
	uint64		run_end;		/* first position that is not ours, or past
								 * the end */
	BlockNumber start;			/* page at position 0 */
	uint64		asked;			/* positions before this were asked for */
	LaWake		wake;			/* looks at pages */
	uint64		ramp;			/* pages since it began to ask */
} LaSeqScan;

/*
 * A scan begins, maybe anew and with another setting.  Nothing is asked for
 * before a page had to be read.
 */
static void
start_asking(LaSeqScan *state)
{
	state->on_trial = la_bulk_read_size < 0;
	state->request_pages = state->on_trial ? AUTOMATIC_BULK_READ_SIZE :
		Max(la_bulk_read_size, 1);
	state->position = 0;
	state->asked = 0;
	state->ramp = 0;
	la_wake_start(&state->wake, la_reads());
}

/*
 * The first page of a serial scan.  Mirrors heapgettup_initial_block() in
 * heapam.c, without the limits that other scans have.
 */
static BlockNumber
first_block(LaSeqScan *state)
{
	HeapScanDesc heap = state->heap;

	if (heap->rs_nblocks == 0)
		return InvalidBlockNumber;
	state->start = heap->rs_startblock;
	start_asking(state);
	state->run_end = heap->rs_nblocks;
	return heap->rs_startblock;
}

/*
 * The page after the one given last.  Mirrors heapgettup_advance_block() in
 * heapam.c; the position is reported before the end is looked for, as there.
 */
static BlockNumber
advance_block(LaSeqScan *state)
{
	HeapScanDesc heap = state->heap;
	BlockNumber block = heap->rs_prefetch_block + 1;

	if (block >= heap->rs_nblocks)
		block = 0;
	if (heap->rs_base.rs_flags & SO_ALLOW_SYNC)
		ss_report_location(heap->rs_base.rs_rd, block);
	if (block == heap->rs_startblock)
		return InvalidBlockNumber;
	state->position++;
	return block;
}

/*
 * What the kernel had read ahead before is over when most of a request has to come from a device.
 */
static void
request_range(LaSeqScan *state, const LaRange *range)
{
	LaResidency *residency = &state->residency;
	LaCounters *counters = &state->node->counters;

	if (!state->on_trial || state->trial.phase != LA_TRIAL_CHANGE)
		la_request_make(residency->relation, range, residency, counters);
	else if (2 * la_request_make_counted(residency->relation, range, residency, counters) >= range->nblocks)
		la_trial_end_change(&state->trial);
}

/*
 * Does the scan meet pages that are not in shared buffers?  A cursor goes on
 * without asking when that was switched off between two fetches.
 */
static bool
must_ask(LaSeqScan *state)
{
	if (!la_feature_enabled(LA_FEATURE_SEQ_SCAN) || la_bulk_read_size == 0 ||
		!la_wake_is_wanted(&state->wake))
		return false;
	if (!state->wake.awake)
	{
		if (!state->wake.woken)
			state->node->counters.scans++;
		la_wake_up(&state->wake);
		la_trial_start(&state->trial, CLEARLY_FASTER, TRIAL_DIVISOR, 1);
	}
	return true;
}

/*
 * A page has been given to the stream: asks for those after it, as far ahead
 * as the scan has come since it began to ask, within bounds.
 */
static void
ask_ahead(LaSeqScan *state)
{
	HeapScanDesc heap = state->heap;
	uint64		ahead;
	uint64		goal;

	if (!must_ask(state) ||
		(state->on_trial && !la_trial_pages(&state->trial, 1)))
	{
		state->ramp = 0;
		return;
	}
	ahead = Min(++state->ramp, (uint64) state->request_pages * REQUESTS_AHEAD);
	goal = Min(state->position + 1 + ahead, state->run_end);
	state->asked = Max(state->asked, state->position + 1);
	while (goal >= state->asked + state->request_pages ||
		   (goal == state->run_end && goal > state->asked))
	{
		LaRange		range;

		range.first = (state->start + state->asked) % heap->rs_nblocks;
		range.nblocks = Min(state->request_pages, state->run_end - state->asked);
		range.nblocks = Min(range.nblocks, heap->rs_nblocks - range.first);
		range.wanted = range.nblocks;
		state->asked += range.nblocks;
		/* Unless they are likely to be in memory. */
		if (la_residency_may_ask(&state->residency))
			request_range(state, &range);
	}
}

/*
 * Callback of a serial scan.  Mirrors heap_scan_stream_read_next_serial() in
 * heapam.c.
 */
static BlockNumber
next_serial(ReadStream *stream, void *callback_private_data,
			void *per_buffer_data)
{
	LaSeqScan  *state = callback_private_data;
	HeapScanDesc heap = state->heap;

	/* Only a scroll cursor turns round, and its scans are left to core. */
	if (!ScanDirectionIsForward(heap->rs_dir))
		elog(ERROR, "pg_lookahead cannot scan a table backward");

	if (heap->rs_inited)
		heap->rs_prefetch_block = advance_block(state);
	else
	{
		heap->rs_prefetch_block = first_block(state);
		heap->rs_inited = true;
	}
	if (heap->rs_prefetch_block != InvalidBlockNumber)
		ask_ahead(state);
	return heap->rs_prefetch_block;
}

/*
 * Callback of a parallel scan.  Mirrors heap_scan_stream_read_next_parallel() in
 * heapam.c; relies on table_block_parallelscan_nextpage() in tableam.c.
 */
static BlockNumber
next_parallel(ReadStream *stream, void *callback_private_data,
			  void *per_buffer_data)
{
	LaSeqScan  *state = callback_private_data;
	HeapScanDesc heap = state->heap;
	Relation	table = heap->rs_base.rs_rd;
	ParallelBlockTableScanDesc shared = (ParallelBlockTableScanDesc) heap->rs_base.rs_parallel;
	ParallelBlockTableScanWorker own = heap->rs_parallelworkerdata;
	bool		first = !heap->rs_inited;

	if (first)
	{
		la_compat_parallelscan_init(table, own, shared);
		state->start = shared->phs_startblock;
		heap->rs_inited = true;
	}
	heap->rs_prefetch_block = table_block_parallelscan_nextpage(table, own, shared);
	if (heap->rs_prefetch_block == InvalidBlockNumber)
		return InvalidBlockNumber;

	if (first)
		start_asking(state);
	state->position = own->phsw_nallocated;
	state->run_end = Min(own->phsw_nallocated + own->phsw_chunk_remaining + 1,
						 shared->phs_nblocks);
	ask_ahead(state);
	return heap->rs_prefetch_block;
}

/*
 * Makes what is kept for a node.  Mirrors the arguments of heap_beginscan() in heapam.c.
 */
static void
swap_stream(LaNode *node, TableScanDesc scan)
{
	HeapScanDesc heap = (HeapScanDesc) scan;
	LaSeqScan  *state = MemoryContextAllocZero(node->query->estate->es_query_cxt,
											   sizeof(LaSeqScan));

	state->node = node;
	node->state = state;

	state->heap = heap;
	la_residency_init(&state->residency, scan->rs_rd);
	read_stream_end(heap->rs_read_stream);
	heap->rs_read_stream = NULL;
	heap->rs_read_stream =
		read_stream_begin_relation(READ_STREAM_SEQUENTIAL | READ_STREAM_USE_BATCHING,
								   heap->rs_strategy, scan->rs_rd, MAIN_FORKNUM,
								   scan->rs_parallel ? next_parallel : next_serial,
								   state, 0);
}

/*
 * Begins the scan when there is none, and gives it our stream if it may ever ask
 * for something.  Mirrors the beginning of SeqNext() in nodeSeqscan.c.  A
 * parallel scan has been begun (relies on ExecSeqScanInitializeDSM() and
 * ExecSeqScanInitializeWorker() in nodeSeqscan.c).
 */
static void
begin_seq_scan(ScanState *node)
{
	TableScanDesc scan = node->ss_currentScanDesc;
	BlockNumber least;
	LaNode	   *registered;

	if (scan == NULL)
		scan = la_compat_beginscan(node->ss_currentRelation,
								   node->ps.state->es_snapshot);
	node->ss_currentScanDesc = scan;

	least = la_bulk_read_size < 0 ? la_trial_least_pages() : LA_SMALL_TABLE;
	if (la_heap_scan_is_small(scan, least))
		return;
	registered = la_attach_wake(&node->ps, LA_FEATURE_SEQ_SCAN);
	if (registered != NULL && registered->state == NULL &&
		la_heap_scan_layout_as_expected(registered, scan))
		swap_stream(registered, scan);
}

/*
 * ExecProcNode of an attached node: once only, unless an extension that
 * attached after us goes on calling it.
 */
static TupleTableSlot *
seq_exec(PlanState *planstate)
{
	ExecProcNodeMtd core = *la_core_exec_of(planstate);
	bool		first = planstate->ExecProcNodeReal == seq_exec;

	if (first || ((ScanState *) planstate)->ss_currentScanDesc == NULL)
		begin_seq_scan((ScanState *) planstate);
	la_core_exec_change(planstate, seq_exec, core);
	return core(planstate);
}

const LaFeatureMethods la_seq_scan_methods = {
	.info = &la_seq_scan_feature,
	.nodes = {{T_SeqScanState, seq_exec}},
	.classify = la_heap_scan_classify,
};
