/*-------------------------------------------------------------------------
 *
 * la_seq_scan.c
 *	  sequential and TID range scans that ask for their pages ahead
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
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/relscan.h"
#include "access/syncscan.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "storage/smgr.h"
#include "utils/rel.h"

#include "heap_scan/la_heap_scan.h"
#include "heap_scan/la_seq_scan.h"
#include "heap_scan/la_trial.h"
#include "la_guc.h"
#include "prefetch/la_residency.h"
#include "prefetch/la_transport.h"

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

/* Of so many requests, one is made while all pages are in the OS cache. */
#define RESIDENT_SHARE 8

typedef struct LaSeqScan
{
	LaNode	   *node;
	ExecProcNodeMtd core;		/* executes the node */
	bool		begun;			/* our part in the scan is done */
	HeapScanDesc heap;
	LaResidency residency;
	uint32		request;		/* pages of a request */
	bool		on_trial;		/* ask only when it gains */
	LaTrial		trial;

	uint64		position;		/* of the page given to the stream last */
	uint64		run_end;		/* first position that is not ours, or past
								 * the end */
	BlockNumber start;			/* page at position 0 */
	uint64		asked;			/* positions before this were asked for */
	bool		asleep;			/* pages are in shared buffers: do not ask */
	uint64		ramp;			/* pages since it began to ask */
	uint32		idle;			/* pages since one had to be read */
	int64		reads;			/* pages read until then */
	uint32		skipped;		/* requests not made since the last one */
} LaSeqScan;

static TupleTableSlot *seq_exec(PlanState *planstate);
static void begin_scan(LaSeqScan *state, ScanState *node);
static void swap_stream(LaSeqScan *state, TableScanDesc scan);
static BlockNumber next_serial(ReadStream *stream, void *callback_private_data,
							   void *per_buffer_data);
static BlockNumber next_parallel(ReadStream *stream,
								 void *callback_private_data,
								 void *per_buffer_data);
static BlockNumber first_block(LaSeqScan *state);
static BlockNumber advance(LaSeqScan *state);
static void start_asking(LaSeqScan *state);
static void look_ahead(LaSeqScan *state);
static bool must_ask(LaSeqScan *state);
static void wake_up(LaSeqScan *state);
static bool trial_wants_asking(LaSeqScan *state);
static void ask(LaSeqScan *state);

/*
 * Puts our function before core's, until the scan has begun.
 */
void
la_seq_scan_attach(LaNode *node)
{
	LaSeqScan  *state;

	state = MemoryContextAllocZero(node->query->estate->es_query_cxt,
								   sizeof(LaSeqScan));
	state->node = node;
	state->core = node->planstate->ExecProcNodeReal;
	state->on_trial = la_bulk_read_size < 0;
	state->request = state->on_trial ? AUTOMATIC_BULK_READ_SIZE : la_bulk_read_size;
	node->seq = state;
	ExecSetExecProcNode(node->planstate, seq_exec);
}

/*
 * ExecProcNode of an attached node: once only, unless an extension that
 * attached after us goes on calling it.
 */
static TupleTableSlot *
seq_exec(PlanState *planstate)
{
	LaSeqScan  *state = la_registry_find(planstate)->seq;

	if (!state->begun)
	{
		begin_scan(state, (ScanState *) planstate);
		state->begun = true;
	}
	if (planstate->ExecProcNodeReal == seq_exec)
		ExecSetExecProcNode(planstate, state->core);
	return state->core(planstate);
}

/*
 * Begins the scan as SeqNext() and TidRangeNext() do when they find none, and
 * gives it our stream.  A parallel scan has been begun by
 * ExecSeqScanInitializeDSM() or ...InitializeWorker().  The range of TIDs is
 * not computed yet: TidRangeNext() rescans a scan that is there with the right
 * one.
 */
static void
begin_scan(LaSeqScan *state, ScanState *node)
{
	TableScanDesc scan = node->ss_currentScanDesc;
	Relation	table = node->ss_currentRelation;
	Snapshot	snapshot = node->ps.state->es_snapshot;
	ItemPointerData nowhere;

	if (scan == NULL && IsA(node, TidRangeScanState))
	{
		ItemPointerSet(&nowhere, 0, FirstOffsetNumber);
		scan = table_beginscan_tidrange(table, snapshot, &nowhere, &nowhere);
	}
	else if (scan == NULL)
		scan = table_beginscan(table, snapshot, 0, NULL);
	node->ss_currentScanDesc = scan;

	if (la_heap_scan_may_swap(state->node, scan))
		swap_stream(state, scan);
}

/*
 * The arguments are those of heap_beginscan() in heapam.c.
 */
static void
swap_stream(LaSeqScan *state, TableScanDesc scan)
{
	HeapScanDesc heap = (HeapScanDesc) scan;

	state->heap = heap;
	la_residency_init(&state->residency, scan->rs_rd);
	read_stream_end(heap->rs_read_stream);
	heap->rs_read_stream = NULL;
	heap->rs_read_stream =
		read_stream_begin_relation(READ_STREAM_SEQUENTIAL | READ_STREAM_USE_BATCHING,
								   heap->rs_strategy, scan->rs_rd, MAIN_FORKNUM,
								   scan->rs_parallel ? next_parallel : next_serial,
								   state, 0);
	state->node->counters.scans++;
}

/*
 * Callback of a serial scan.  Mirrors heap_scan_stream_read_next_serial().
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
		heap->rs_prefetch_block = advance(state);
	else
	{
		heap->rs_prefetch_block = first_block(state);
		heap->rs_inited = true;
	}
	if (heap->rs_prefetch_block != InvalidBlockNumber)
		look_ahead(state);
	return heap->rs_prefetch_block;
}

/*
 * Callback of a parallel scan.  Mirrors heap_scan_stream_read_next_parallel().
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
		table_block_parallelscan_startblock_init(table, own, shared);
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
	look_ahead(state);
	return heap->rs_prefetch_block;
}

/*
 * The first page of a serial scan.  Mirrors heapgettup_initial_block().
 */
static BlockNumber
first_block(LaSeqScan *state)
{
	HeapScanDesc heap = state->heap;

	if (heap->rs_nblocks == 0 || heap->rs_numblocks == 0)
		return InvalidBlockNumber;
	state->start = heap->rs_startblock;
	start_asking(state);
	state->run_end = Min(heap->rs_numblocks, heap->rs_nblocks);
	return heap->rs_startblock;
}

/*
 * The page after the one given last.  Mirrors heapgettup_advance_block(); the
 * position is reported before the end is looked for, as there.
 */
static BlockNumber
advance(LaSeqScan *state)
{
	HeapScanDesc heap = state->heap;
	BlockNumber block = heap->rs_prefetch_block + 1;

	if (block >= heap->rs_nblocks)
		block = 0;
	if (heap->rs_base.rs_flags & SO_ALLOW_SYNC)
		ss_report_location(heap->rs_base.rs_rd, block);
	if (block == heap->rs_startblock)
		return InvalidBlockNumber;
	if (heap->rs_numblocks != InvalidBlockNumber && --heap->rs_numblocks == 0)
		return InvalidBlockNumber;
	state->position++;
	return block;
}

/*
 * A scan begins.  Nothing is asked for before a page had to be read.
 */
static void
start_asking(LaSeqScan *state)
{
	state->position = 0;
	state->asked = 0;
	state->ramp = 0;
	state->asleep = true;
	state->reads = la_heap_scan_reads();
}

/*
 * A page has been given to the stream: asks for those after it, as far ahead
 * as the scan has come since it began to ask, within bounds.
 */
static void
look_ahead(LaSeqScan *state)
{
	uint64		ahead;
	uint64		goal;

	if (!must_ask(state) ||
		(state->on_trial && !trial_wants_asking(state)))
	{
		state->ramp = 0;
		return;
	}
	ahead = Min(++state->ramp, (uint64) state->request * REQUESTS_AHEAD);
	goal = Min(state->position + 1 + ahead, state->run_end);
	state->asked = Max(state->asked, state->position + 1);
	while (goal >= state->asked + state->request ||
		   (goal == state->run_end && goal > state->asked))
		ask(state);
}

/*
 * Does the scan meet pages that are not in shared buffers?
 */
static bool
must_ask(LaSeqScan *state)
{
	int64		reads = la_heap_scan_reads();

	if (reads != state->reads)
	{
		if (state->asleep)
			wake_up(state);
		state->asleep = false;
		state->reads = reads;
		state->idle = 0;
	}
	else if (++state->idle > LA_HEAP_SCAN_SLEEP_AFTER)
		state->asleep = true;
	return !state->asleep || la_heap_scan_forced();
}

/*
 * A page had to be read, after many that had not.
 */
static void
wake_up(LaSeqScan *state)
{
	la_trial_start(&state->trial, CLEARLY_FASTER);
	state->node->mode = state->on_trial ? "trial" : "advice";
}

/*
 * Does a trial, or its verdict, say that the scan shall ask?
 */
static bool
trial_wants_asking(LaSeqScan *state)
{
	bool		ask = la_trial_page(&state->trial);

	if (state->trial.phase == LA_TRIAL_DECIDED)
		state->node->mode = ask ? "advice" : "plain";
	return ask;
}

/*
 * Asks for the next request's pages, unless they are likely to be in memory.
 */
static void
ask(LaSeqScan *state)
{
	HeapScanDesc heap = state->heap;
	LaScanCounters *counters = &state->node->counters;
	BlockNumber block = (state->start + state->asked) % heap->rs_nblocks;
	uint32		nblocks;

	nblocks = Min(state->request, state->run_end - state->asked);
	nblocks = Min(nblocks, heap->rs_nblocks - block);
	state->asked += nblocks;
	if (state->residency.resident && ++state->skipped < RESIDENT_SHARE)
		return;
	state->skipped = 0;
	if (!smgrprefetch(RelationGetSmgr(heap->rs_base.rs_rd), MAIN_FORKNUM,
					  block, nblocks))
		return;
	counters->requests++;
	counters->advised += nblocks;
	if (la_residency_asked(&state->residency))
		counters->pauses++;
}
