/*-------------------------------------------------------------------------
 *
 * la_bitmap_scan.c
 *	  bitmap heap scans that ask for their pages ahead, in ranges
 *
 * Core executes the node.  Ours is only the read stream in its scan
 * descriptor, whose callback takes blocks from the bitmap's iterator into a
 * window and gives them to the stream from there: the same blocks in the same
 * order, with the same per-buffer results.  So rows, exact and lossy counts,
 * rechecks, pruning and predicate locks are core's.  What is in the window is
 * known ahead, and advice is given for ranges of it (prefetch/la_advice.c).
 * Blocks in the gaps of a range reach the kernel's cache, never a shared
 * buffer.
 *
 *		given  <=  taken				(counts of blocks of one bitmap)
 *
 * Where a part of the bitmap has most of the table's pages, they are read much as
 * in a sequential scan, and asking for them may cost more than it gains
 * (la_trial.c).  So there a trial decides between our way and core's, which is
 * another stream: with asynchronous reads, and without advice.  In a part that has
 * hardly any gaps that stream asks for the same large reads as we would; so it is
 * used without a trial, unless core reads synchronously, which leaves such a part to
 * the read-ahead of the kernel.  The processes of a parallel scan keep to our way:
 * core's would have them take turns at single blocks.  To change from one to the
 * other, the callback ends the stream in use.  When its pages are used up,
 * core takes that for the end of the scan, and returns; the other stream is put in
 * its place, and core is asked again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "storage/aio.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "heap_scan/la_bitmap_scan.h"
#include "heap_scan/la_heap_scan.h"
#include "heap_scan/la_trial.h"
#include "prefetch/la_advice.h"
#include "prefetch/la_read_stream.h"
#include "prefetch/la_transport.h"

/* Blocks that a window can hold: a power of two. */
#define WINDOW_SIZE 2048

/*
 * The same for a process of a parallel scan: what it takes, the others cannot.
 * So the window is small at first and never more than a share of what the
 * process has taken so far, which bounds how long the others can have to wait
 * for it at the end.  It is refilled when half empty, so that each process asks
 * for runs of neighbours.
 */
#define PARALLEL_WINDOW_MIN 32
#define PARALLEL_WINDOW_MAX 512
#define PARALLEL_WINDOW_SHARE 8

/*
 * Blocks after which it is looked how dense they lie, and of these the shares that
 * follow directly on the one before: from which on a part is dense, and below
 * which it no longer is; and the same for a part that is solid.  There the mean
 * run is as long as core's largest read by default, 16 blocks.
 */
#define BLOCKS_PER_LOOK 512
#define DENSE_FROM 0.7
#define DENSE_UNTIL 0.6
#define SOLID_FROM (15.0 / 16.0)
#define SOLID_UNTIL 0.9

/*
 * How many times as fast our way has to be in a dense part: more than what two
 * measurements of the same way differ by on a quiet machine.
 */
#define ADVICE_FASTER 1.1

/* Reads in flight of core's way, at least: its default. */
#define CORE_READS 16

typedef enum StreamKind
{
	STREAM_ADVISED,				/* or, with direct I/O, the only one */
	STREAM_CORE,
} StreamKind;

typedef enum Density
{
	SPARSE,						/* our way */
	DENSE,						/* what a trial tells */
	SOLID,						/* core's way */
} Density;

typedef struct LaBitmapScan
{
	LaNode	   *node;
	ExecProcNodeMtd core;		/* executes the node */
	HeapScanDesc heap;			/* NULL while the stream is core's */

	LaAdvice   *advice;			/* NULL with direct I/O: the stream reads
								 * ahead */
	TBMIterateResult *window;	/* a ring; NULL unless needed */
	bool		parallel;
	uint64		taken;
	uint64		given;
	bool		exhausted;		/* the iterator has no more */

	ReadStream *streams[STREAM_CORE + 1];	/* NULL until needed */
	StreamKind	kind;			/* of the one in use */
	bool		changing;		/* it is being used up */
	uint32		counted;		/* blocks since the last look */
	uint32		adjacent;		/* of these, right behind another one */
	BlockNumber last_block;		/* given last */
	Density		density;		/* of the blocks counted last */
	LaTrial		trial;

	bool		asleep;			/* pages are in buffers: do not look ahead */
	int64		reads;			/* pages read before we fell asleep */
	uint64		last_missed;	/* number of a block that was in no buffer */
} LaBitmapScan;

static TupleTableSlot *bitmap_exec(PlanState *planstate);
static void begin_scan(LaBitmapScan *state, BitmapHeapScanState *node);
static void begin_bitmap(LaBitmapScan *state);
static ReadStream *begin_stream(LaBitmapScan *state, int max_ios);
static void look_how_dense(LaBitmapScan *state, BlockNumber block);
static inline bool may_change(const LaBitmapScan *state);
static bool must_change(LaBitmapScan *state);
static void change_stream(LaBitmapScan *state);
static BlockNumber next_block(ReadStream *stream, void *callback_private_data,
							  void *per_buffer_data);
static bool must_look_ahead(LaBitmapScan *state);
static void look_ahead(LaBitmapScan *state);
static uint64 window_now(LaBitmapScan *state);
static void free_window(LaBitmapScan *state);
static bool take_block(LaBitmapScan *state, TBMIterateResult *result);

/*
 * Puts our function before core's.
 */
void
la_bitmap_scan_attach(LaNode *node)
{
	LaBitmapScan *state;

	state = MemoryContextAllocZero(node->query->estate->es_query_cxt,
								   sizeof(LaBitmapScan));
	state->node = node;
	state->core = node->planstate->ExecProcNodeReal;
	node->bitmap = state;
	ExecSetExecProcNode(node->planstate, bitmap_exec);
}

/*
 * ExecProcNode of an attached node.  Core sets "initialized" when it has
 * built a bitmap, and only ExecReScanBitmapHeapScan() clears it, which frees
 * the bitmap that the window points into.
 */
static TupleTableSlot *
bitmap_exec(PlanState *planstate)
{
	BitmapHeapScanState *node = (BitmapHeapScanState *) planstate;
	LaBitmapScan *state = la_registry_find(planstate)->bitmap;
	TupleTableSlot *slot;

	if (unlikely(!node->initialized))
	{
		if (node->ss.ss_currentScanDesc == NULL)
			begin_scan(state, node);
		if (state->heap != NULL)
			begin_bitmap(state);
	}

	slot = state->core(planstate);
	while (unlikely(state->changing) && TupIsNull(slot))
	{
		change_stream(state);
		slot = state->core(planstate);
	}
	return slot;
}

/*
 * Begins the scan as BitmapTableScanSetup() does when it finds none, and gives
 * it our stream.  The iterator belongs to a bitmap that is yet to be built; core
 * does not look at it before, but would clean it up.
 */
static void
begin_scan(LaBitmapScan *state, BitmapHeapScanState *node)
{
	Relation	table = node->ss.ss_currentRelation;
	EState	   *estate = node->ss.ps.state;
	TableScanDesc scan;
	HeapScanDesc heap;
	int			max_ios = 0;

	scan = table_beginscan_bm(table, estate->es_snapshot, 0, NULL);
	memset(&scan->st.rs_tbmiterator, 0, sizeof(scan->st.rs_tbmiterator));
	node->ss.ss_currentScanDesc = scan;
	if (!la_heap_scan_may_swap(state->node, scan))
		return;

	heap = (HeapScanDesc) scan;
	state->heap = heap;
	state->parallel = node->pstate != NULL;
	if (la_transport_choose() == LA_TRANSPORT_ADVICE)
		state->advice = la_advice_create(table, estate->es_query_cxt,
										 &state->node->counters);
	else
	{
		state->node->mode = "stream";
		max_ios = la_transport_distance(table, state->node->query->partial_fetch);
	}

	read_stream_end(heap->rs_read_stream);
	heap->rs_read_stream = NULL;
	state->kind = STREAM_ADVISED;
	state->streams[state->kind] = begin_stream(state, max_ios);
	heap->rs_read_stream = state->streams[state->kind];
}

/*
 * The arguments are those of heap_beginscan() in heapam.c, but for the limit.
 * It lives as long as the query; the one that is not in use keeps nothing pinned.
 */
static ReadStream *
begin_stream(LaBitmapScan *state, int max_ios)
{
	HeapScanDesc heap = state->heap;
	MemoryContext old_context;
	ReadStream *stream;

	old_context = MemoryContextSwitchTo(state->node->query->estate->es_query_cxt);
	stream = la_read_stream_begin(READ_STREAM_DEFAULT | READ_STREAM_USE_BATCHING,
								  heap->rs_strategy, heap->rs_base.rs_rd,
								  next_block, state, sizeof(TBMIterateResult),
								  max_ios, io_combine_limit);
	MemoryContextSwitchTo(old_context);
	return stream;
}

/*
 * A block is given to the stream: looks, now and then, how dense they lie.
 */
static void
look_how_dense(LaBitmapScan *state, BlockNumber block)
{
	uint32		test_pages = la_trial_test_pages();
	double		share;

	if (block == state->last_block + 1)
		state->adjacent++;
	state->last_block = block;
	if (++state->counted < (test_pages > 0 ? test_pages : BLOCKS_PER_LOOK))
		return;

	share = test_pages > 0 ? DENSE_FROM : (double) state->adjacent / state->counted;
	state->counted = 0;
	state->adjacent = 0;
	if (io_method != IOMETHOD_SYNC &&
		share >= (state->density == SOLID ? SOLID_UNTIL : SOLID_FROM))
		state->density = SOLID;
	else if (share < (state->density == SPARSE ? DENSE_FROM : DENSE_UNTIL))
		state->density = SPARSE;
	else if (state->density != DENSE)
	{
		state->density = DENSE;
		la_trial_start(&state->trial, ADVICE_FASTER);
	}
}

/*
 * May the scan change streams at all?  Not in a query that may stand idle
 * between two rows, because core's way keeps many pages pinned.
 */
static inline bool
may_change(const LaBitmapScan *state)
{
	return !state->parallel && !state->node->query->partial_fetch;
}

/*
 * Shall the stream in use make way for the other one?
 */
static bool
must_change(LaBitmapScan *state)
{
	StreamKind	wanted = STREAM_ADVISED;

	if (!may_change(state))
		return false;
	if (state->density == SOLID ||
		(state->density == DENSE && !la_trial_page(&state->trial)))
		wanted = STREAM_CORE;
	state->node->mode = wanted == STREAM_ADVISED ? "advice" : "plain";
	return wanted != state->kind;
}

/*
 * The stream in use has been used up: puts the other one in its place.  It is
 * reset, or it would stay at its end when its turn comes again.
 */
static void
change_stream(LaBitmapScan *state)
{
	StreamKind	wanted = state->kind == STREAM_CORE ? STREAM_ADVISED : STREAM_CORE;

	if (state->streams[wanted] == NULL)
		state->streams[wanted] = begin_stream(state,
											  Max(effective_io_concurrency, CORE_READS));
	read_stream_reset(state->streams[state->kind]);
	state->heap->rs_read_stream = state->streams[wanted];
	state->kind = wanted;
	state->changing = false;
}

/*
 * A bitmap is about to be built.
 */
static void
begin_bitmap(LaBitmapScan *state)
{
	state->taken = 0;
	state->given = 0;
	state->last_missed = 0;
	state->exhausted = false;
	state->changing = false;
	state->counted = 0;
	state->adjacent = 0;
	state->last_block = InvalidBlockNumber;
	state->density = SPARSE;
	state->asleep = true;
	state->reads = la_heap_scan_reads();
	state->node->counters.scans++;
	if (state->advice != NULL)
		la_advice_start(state->advice,
						la_transport_distance(state->advice->relation,
											  state->node->query->partial_fetch));
}

/*
 * Read stream callback: the next block to read, and what the bitmap says of it.
 */
static BlockNumber
next_block(ReadStream *stream, void *callback_private_data,
		   void *per_buffer_data)
{
	LaBitmapScan *state = callback_private_data;
	TBMIterateResult *result = per_buffer_data;

	if (state->advice != NULL && must_look_ahead(state))
	{
		state->changing = must_change(state);
		if (state->changing)
			return InvalidBlockNumber;
		if (state->kind == STREAM_ADVISED)
			look_ahead(state);
	}

	if (state->given < state->taken)
		*result = state->window[state->given++ % WINDOW_SIZE];
	else if (!take_block(state, result))
	{
		free_window(state);
		return InvalidBlockNumber;
	}
	if (!state->asleep && may_change(state))
		look_how_dense(state, result->blockno);
	return result->blockno;
}

/*
 * Does the scan meet pages that are not in buffers?
 */
static bool
must_look_ahead(LaBitmapScan *state)
{
	int64		reads = la_heap_scan_reads();

	if (state->asleep)
	{
		if (reads == state->reads && !la_heap_scan_forced())
			return false;
		state->asleep = false;
		state->last_missed = state->taken;
		state->node->mode = "advice";
	}
	else if (state->taken - state->last_missed > LA_HEAP_SCAN_SLEEP_AFTER)
	{
		state->asleep = true;
		state->reads = reads;
	}
	return !state->asleep;
}

/*
 * Asks for pages further on, as many as there should be in flight.
 */
static void
look_ahead(LaBitmapScan *state)
{
	LaAdvice   *advice = state->advice;
	LaScanCounters *counters = &state->node->counters;
	uint64		window;

	if (state->given < state->taken)
	{
		counters->distance_sum += advice->in_flight_count;
		counters->distance_max = Max(counters->distance_max, advice->in_flight_count);
		counters->prefetched++;
	}
	if (!la_advice_turn(advice, state->given))
		return;
	if (state->window == NULL)
		state->window = MemoryContextAlloc(state->node->query->estate->es_query_cxt,
										   WINDOW_SIZE * sizeof(TBMIterateResult));
	window = window_now(state);
	if (state->parallel && state->taken - state->given >= window / 2)
		return;

	while (la_advice_wants_more(advice))
	{
		TBMIterateResult *result = &state->window[state->taken % WINDOW_SIZE];

		if (state->taken - state->given >= window ||
			!take_block(state, result))
		{
			la_advice_flush(advice);
			break;
		}
		if (!BufferIsValid(la_advice_add(advice, result->blockno, state->taken)))
			state->last_missed = state->taken;
		state->taken++;
	}
}

/*
 * How many blocks the window may hold at present.
 */
static uint64
window_now(LaBitmapScan *state)
{
	if (!state->parallel)
		return WINDOW_SIZE;
	return Min(Max(state->taken / PARALLEL_WINDOW_SHARE, PARALLEL_WINDOW_MIN),
			   PARALLEL_WINDOW_MAX);
}

/*
 * The bitmap is at its end.  Where a statement scans many partitions, one after
 * the other, their windows do not add up.
 */
static void
free_window(LaBitmapScan *state)
{
	if (state->window != NULL)
		pfree(state->window);
	state->window = NULL;
}

/*
 * Takes the next block from the bitmap.  Returns false at its end.  Leaves out
 * what bitmapheap_stream_read_next() of heapam.c leaves out.
 */
static bool
take_block(LaBitmapScan *state, TBMIterateResult *result)
{
	HeapScanDesc heap = state->heap;

	if (state->exhausted)
		return false;
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (!tbm_iterate(&heap->rs_base.st.rs_tbmiterator, result))
		{
			state->exhausted = true;
			return false;
		}
		if (result->blockno < heap->rs_nblocks || IsolationIsSerializable())
			return true;
	}
}
