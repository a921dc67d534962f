/*-------------------------------------------------------------------------
 *
 * la_gap_choice.c
 *	  the gap limit that suits a device and a pattern of blocks
 *
 * A device makes so many requests and transfers so many blocks a second, and a
 * scan takes about as long as the slower of the two:
 *
 *		time(g) = max(requests(g) / IOPS, blocks(g) / bandwidth)
 *
 * where gaps of up to g blocks are bridged.  A larger g means fewer requests
 * and more blocks, so the best one depends on the device and on how dense the
 * wanted blocks lie: of a volume with 3,000 IOPS and 125 MB/s, 2 for a scan of
 * 42 % of all blocks at random, 5 for one of 10 %.
 *
 * Pure: no I/O, no memory, no settings.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "prefetch/la_gap_choice.h"

/*
 * Counts a wanted block that is so many blocks after the one before it.
 */
void
la_gap_count(LaGapCounts *counts, int64 step)
{
	counts->blocks++;
	if (step >= 1 && step <= LA_GAP_CHOICE_MAX + 1)
		counts->gaps[step - 1]++;
}

/*
 * The gap limit, in blocks, with the shortest time; of equals the least.
 * Requests are of at most max_blocks blocks, so no longer gap is bridged, and
 * there are no fewer requests than that takes.
 */
uint32
la_gap_choose(const LaGapCounts *counts, uint32 max_blocks,
			  double requests_per_s, double blocks_per_s)
{
	double		requests = counts->blocks;
	double		blocks = counts->blocks;
	double		best_time = 0;
	uint32		best = 0;

	for (uint32 gap = 0; gap <= LA_GAP_CHOICE_MAX && gap + 2 <= max_blocks; gap++)
	{
		double		time;

		requests -= counts->gaps[gap];
		blocks += (double) gap * counts->gaps[gap];
		time = Max(Max(requests, blocks / max_blocks) / requests_per_s,
				   blocks / blocks_per_s);
		if (gap == 0 || time < best_time)
		{
			best_time = time;
			best = gap;
		}
	}
	return best;
}
