/*-------------------------------------------------------------------------
 *
 * la_misses.c
 *	  do the pages that a query has to read come from a device?
 *
 * To prepare to look ahead takes as long as some reads out of the cache of the
 * operating system, and many queries are over after a few.  So a query whose
 * pages the kernel has is left alone: until so many of its rows had a page
 * read from a device that it pays, or, when it goes on for long, until any
 * had.
 *
 * Reads BufferUsage of instrument.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/instrument.h"
#include "nodes/nodeFuncs.h"
#include "storage/aio.h"

#include "attach/la_misses.h"
#include "prefetch/la_residency.h"
#include "prefetch/la_wake.h"

/* Rows with misses before the first look: arbitrary. */
#define FEW_ROWS 2

/*
 * To how many rows with misses one page from a device belongs at least, among
 * the first of them, and when there are more, for which the same preparations
 * are made; and after how many any page suffices, because a trial can tell
 * then.  Arbitrary.
 */
#define ROWS_PER_DEVICE_PAGE 3
#define MORE_ROWS 64
#define MORE_ROWS_PER_DEVICE_PAGE 8
#define MANY_ROWS 1024

/*
 * Time of a row, and of a page that was read for it, in microseconds, from
 * which on any page from a device suffices: to look a row up ahead takes some
 * three, and a page out of the system's cache four.  Arbitrary, a quick device
 * has less where a third of the rows has such a page.
 */
#define SLOW_ROW_US 30
#define SLOW_READ_US 12

/*
 * Rows that find all pages in shared buffers are looked up ahead, too, for a
 * part of the price.  They are not counted, but their hits are: some five a
 * row, beyond those of rows with a miss.  Arbitrary.
 */
#define HITS_OF_MISSED_ROW 8
#define HITS_PER_ROW 8
#define HITS_PER_US 2

/* Nodes of which it is asked: arbitrary, a large plan is not walked over and over. */
#define MOST_NODES 1000

/*
 * Do enough pages come from a device, of so many rows since the first look?
 * The kernel reads more of them ahead than the rows have read so far.  Where
 * it is not counted what comes from a device, only the time tells.
 */
static bool
is_worth_it(const LaMisses *misses, uint32 rows, bool counted)
{
	int64		reads = la_reads() - misses->reads;
	int64		pages = counted ? Min(la_residency_device_pages() - misses->device_pages, reads) : reads;
	int64		hits = pgBufferUsage.shared_blks_hit - misses->hits - HITS_OF_MISSED_ROW * (int64) rows;
	instr_time	elapsed;

	hits = Max(hits, 0);
	if (pages == 0)
		return false;
	if (rows >= MANY_ROWS ||
		(counted && pages * (rows < MORE_ROWS ? ROWS_PER_DEVICE_PAGE : MORE_ROWS_PER_DEVICE_PAGE) >=
		 rows + hits / HITS_PER_ROW))
		return true;
	INSTR_TIME_SET_CURRENT(elapsed);
	INSTR_TIME_SUBTRACT(elapsed, misses->began);
	return INSTR_TIME_GET_MICROSEC(elapsed) >=
		Max((int64) SLOW_ROW_US * rows, SLOW_READ_US * reads) + hits / HITS_PER_US;
}

/*
 * planstate_tree_walker callback: does a scan read what nobody counts for this
 * process?  The pages of a bitmap are read by PostgreSQL's workers, if there
 * are any.  Ends the walk, too, when it has come to so many nodes.
 */
static bool
is_not_counted(PlanState *planstate, void *context)
{
	if (--*(int *) context < 0)
		return true;
	if (IsA(planstate, BitmapHeapScanState) && io_method == IOMETHOD_WORKER)
		return true;
	switch (nodeTag(planstate))
	{
		case T_IndexScanState:
		case T_IndexOnlyScanState:
		case T_BitmapHeapScanState:
			if (!la_residency_is_counted(((ScanState *) planstate)->ss_currentRelation))
				return true;
			break;
		default:
			break;
	}
	return planstate_tree_walker(planstate, is_not_counted, context);
}

/*
 * Is it counted for this process what the scans read whose pages were missed:
 * of loops over loops, on their inner sides, and of a scan, by the plans that
 * it calls?
 */
static bool
are_counted(PlanState *planstate)
{
	int			nodes = MOST_NODES;
	bool		not_counted = false;

	if (!IsA(planstate, NestLoopState))
		not_counted = planstate_tree_walker(planstate, is_not_counted, &nodes);
	for (; IsA(planstate, NestLoopState) && !not_counted; planstate = outerPlanState(planstate))
		not_counted = is_not_counted(innerPlanState(planstate), &nodes);
	return !not_counted || nodes < 0;
}

/*
 * Pages were read for another row of a query, by this node.  Returns whether
 * such pages come from a device, or may.  Looks seldom, since that takes a
 * system call: after 1, 4, 16 ... rows.
 */
bool
la_misses_are_cold(LaMisses *misses, PlanState *planstate)
{
	uint32		watched;

	if (misses->cold || ++misses->rows < FEW_ROWS)
		return misses->cold;
	watched = misses->rows - FEW_ROWS;
	if (watched == 0)
	{
		misses->device_pages = la_residency_device_pages();
		misses->hits = pgBufferUsage.shared_blks_hit;
		misses->reads = la_reads();
		INSTR_TIME_SET_CURRENT(misses->began);
		misses->next_look = FEW_ROWS + 1;
	}
	if (misses->rows < misses->next_look || watched == 0)
		return false;
	misses->next_look = FEW_ROWS + 4 * watched;
	misses->cold = is_worth_it(misses, watched, true) ||
		(is_worth_it(misses, watched, false) && !are_counted(planstate));
	return misses->cold;
}

/*
 * A query whose rows are fetched a few at a time pauses, or goes on: what comes in
 * between is not its own.  "began", "hits" and "reads" say where it started while it
 * runs, and how much it had while it pauses; now less the one gives the other.  Not
 * so "device_pages", which takes a system call: what others have read in between may
 * count, but no more than the query's own reads.
 */
void
la_misses_turn(LaMisses *misses)
{
	instr_time	now;

	if (misses->rows < FEW_ROWS || misses->cold)
		return;
	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, misses->began);
	misses->began = now;
	misses->hits = pgBufferUsage.shared_blks_hit - misses->hits;
	misses->reads = la_reads() - misses->reads;
}
