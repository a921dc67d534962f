/*-------------------------------------------------------------------------
 *
 * la_bitmap_window.c
 *	  the next blocks of a bitmap, for which advice is given
 *
 * Blocks are taken from the bitmap's iterator into a window and given to the stream
 * from there: the same blocks in the same order, with the same per-buffer results.
 * What is in the window is known ahead, and advice is given for ranges of it
 * (prefetch/la_advice.c).  Blocks in the gaps of a range reach the kernel's
 * cache, never a shared buffer.
 *
 *		given  <=  taken				(counts of blocks of one bitmap)
 *
 * Blocks that nothing is asked for pass the window by.
 *
 * Reads HeapScanDescData of heapam.h, TableScanDescData of relscan.h and
 * TBMIterateResult of tidbitmap.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/relscan.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"

#include "heap_scan/la_bitmap_window.h"

/* Blocks that a window can hold: a power of two. */
#define WINDOW_SIZE 2048
#define WINDOW_BYTES (WINDOW_SIZE * sizeof(TBMIterateResult))

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

void
la_bitmap_window_start(LaBitmapWindow *window)
{
	window->taken = 0;
	window->given = 0;
	window->exhausted = false;
}

/*
 * Takes the next block from the bitmap.  Returns false at its end.  Mirrors
 * bitmapheap_stream_read_next() in heapam.c in what it leaves out.
 */
static bool
take_from_bitmap(LaBitmapWindow *window, TBMIterateResult *result)
{
	HeapScanDesc heap = window->heap;

	if (window->exhausted)
		return false;
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (!tbm_iterate(&heap->rs_base.st.rs_tbmiterator, result))
		{
			window->exhausted = true;
			return false;
		}
		if (result->blockno < heap->rs_nblocks || IsolationIsSerializable())
			return true;
	}
}

/*
 * Is there a window, or memory for one?  Scans that are left early keep theirs.
 */
bool
la_bitmap_window_affordable(const LaBitmapWindow *window)
{
	return window->blocks != NULL ||
		window->query->ring_bytes + WINDOW_BYTES <= LA_STATEMENT_BYTES;
}

/*
 * Asks for pages further on, as many as there should be in flight.
 */
void
la_bitmap_window_look_ahead(LaBitmapWindow *window)
{
	LaAdvice   *advice = window->advice;
	LaCounters *counters = advice->counters;
	uint64		size;

	if (window->given < window->taken)
	{
		counters->distance_sum += advice->in_flight_count;
		counters->distance_max = Max(counters->distance_max, advice->in_flight_count);
		counters->prefetched++;
	}
	if (!la_advice_turn(advice, window->given) || !la_bitmap_window_affordable(window))
		return;
	if (window->blocks == NULL)
	{
		window->blocks = MemoryContextAlloc(advice->context, WINDOW_BYTES);
		window->query->ring_bytes += WINDOW_BYTES;
	}
	size = !window->parallel ? WINDOW_SIZE :
		Min(Max(window->taken / PARALLEL_WINDOW_SHARE, PARALLEL_WINDOW_MIN),
			PARALLEL_WINDOW_MAX);

	if (window->parallel && window->taken - window->given >= size / 2)
		return;

	while (la_advice_wants_more(advice))
	{
		TBMIterateResult *result = &window->blocks[window->taken % WINDOW_SIZE];

		if (window->taken - window->given >= size ||
			!take_from_bitmap(window, result))
		{
			la_advice_flush(advice);
			break;
		}
		la_advice_add(advice, result->blockno, window->taken);
		window->taken++;
	}
}

/*
 * The next block, out of the window if one is there.  Returns false at the end
 * of the bitmap.
 */
bool
la_bitmap_window_next(LaBitmapWindow *window, TBMIterateResult *result)
{
	if (window->given < window->taken)
	{
		*result = window->blocks[window->given++ % WINDOW_SIZE];
		return true;
	}
	if (take_from_bitmap(window, result))
		return true;
	/* Where a statement scans many partitions, their windows do not add up. */
	if (window->blocks != NULL)
	{
		pfree(window->blocks);
		window->blocks = NULL;
		window->query->ring_bytes -= WINDOW_BYTES;
	}
	return false;
}
