/*-------------------------------------------------------------------------
 *
 * la_range_planner.c
 *	  forms ranges of blocks to ask for out of the blocks that are wanted
 *
 * Pure: no I/O, no memory, no settings.  Blocks come in the order in which
 * they will be used, which need not be ascending.  A block joins the open
 * range when the gap between them is short enough, on whichever side; blocks
 * in the gap are asked for although nobody wants them, which is cheaper than
 * another request as long as
 *
 *		gap * block size / bandwidth  <  1 / IOPS.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "prefetch/la_range_planner.h"

/*
 * Starts with no open range.  max_blocks is at least 1.
 */
void
la_range_planner_start(LaRangePlanner *planner, uint32 gap_limit,
					   uint32 max_blocks)
{
	planner->gap_limit = gap_limit;
	planner->max_blocks = max_blocks;
	planner->open.nblocks = 0;
}

/*
 * Extends the open range to a block, if that is near enough.  One within the
 * range was a gap, or comes again, which is not known; it is not counted.
 */
static bool
bridge(LaRangePlanner *planner, BlockNumber block)
{
	LaRange    *open = &planner->open;
	BlockNumber last = open->first + open->nblocks - 1;
	uint32		growth;

	if (block >= open->first && block <= last)
		return true;

	growth = block > last ? block - last : open->first - block;
	if (growth - 1 > planner->gap_limit ||
		growth > planner->max_blocks - open->nblocks)
		return false;
	open->nblocks += growth;
	open->wanted++;
	if (block < open->first)
		open->first = block;
	return true;
}

/*
 * Adds a wanted block.  Returns true, and the range that was open before in
 * *finished, when the block cannot join it and opens another one.
 */
bool
la_range_planner_add(LaRangePlanner *planner, BlockNumber block,
					 LaRange *finished)
{
	bool		had_range;

	if (planner->open.nblocks > 0 && bridge(planner, block))
		return false;

	had_range = la_range_planner_finish(planner, finished);
	planner->open.first = block;
	planner->open.nblocks = 1;
	planner->open.wanted = 1;
	return had_range;
}

/*
 * Does a block lie within the open range or near enough to join it?
 */
bool
la_range_planner_is_near(const LaRangePlanner *planner, BlockNumber block)
{
	const LaRange *open = &planner->open;

	return open->nblocks > 0 &&
		(uint64) block + planner->gap_limit + 1 >= open->first &&
		block <= (uint64) open->first + open->nblocks + planner->gap_limit;
}

/*
 * Closes the open range.  Returns false when there is none.
 */
bool
la_range_planner_finish(LaRangePlanner *planner, LaRange *finished)
{
	if (planner->open.nblocks == 0)
		return false;
	*finished = planner->open;
	planner->open.nblocks = 0;
	return true;
}
