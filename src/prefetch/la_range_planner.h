/*-------------------------------------------------------------------------
 *
 * la_range_planner.h
 *	  forms ranges of blocks to ask for out of the blocks that are wanted
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_RANGE_PLANNER_H
#define LA_RANGE_PLANNER_H

#include "storage/block.h"

/* Blocks to be asked for with one request. */
typedef struct LaRange
{
	BlockNumber first;			/* lowest block */
	uint32		nblocks;		/* length, gaps included */
	uint32		wanted;			/* blocks that are wanted, each counted once */
} LaRange;

/*
 * Longest gap bridged when pg_lookahead.gap_limit is -1, in blocks, as long as
 * nothing better is known.  See docs/benchmarks.md.
 */
#define LA_USUAL_GAP_LIMIT 2

/*
 * Longest request, in blocks: 128 kB with pages of 8 kB.  The kernel splits
 * longer ones (by default at 128 kB on most devices), and a short one starts
 * sooner.
 */
#define LA_MOST_REQUEST_BLOCKS 16

/*
 * One open range, to which the next wanted block is added when it is near.
 * Gaps and lengths are in blocks.
 */
typedef struct LaRangePlanner
{
	uint32		gap_limit;		/* longest gap that is bridged */
	uint32		max_blocks;		/* longest range */
	LaRange		open;			/* open.nblocks is 0 when there is none */
} LaRangePlanner;

extern void la_range_planner_start(LaRangePlanner *planner, uint32 gap_limit,
								   uint32 max_blocks);
extern bool la_range_planner_add(LaRangePlanner *planner, BlockNumber block,
								 LaRange *finished);
extern bool la_range_planner_is_near(const LaRangePlanner *planner,
									 BlockNumber block);
extern bool la_range_planner_finish(LaRangePlanner *planner,
									LaRange *finished);

#endif							/* LA_RANGE_PLANNER_H */
