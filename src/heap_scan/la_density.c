/*-------------------------------------------------------------------------
 *
 * la_density.c
 *	  how dense the blocks of a bitmap lie
 *
 * It is looked now and then how many blocks follow directly on the one before.
 * Each level is left at a lower share than it is reached at, so that a part
 * between two levels does not go to and fro.  With io_method = sync no part counts
 * as solid.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/aio.h"

#include "heap_scan/la_density.h"
#include "prefetch/la_trial.h"

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

static LaDensityLevel level_of(double share, LaDensityLevel before);

/*
 * A bitmap begins; as long as nothing is known, it counts as sparse.
 */
void
la_density_start(LaDensity *density)
{
	density->counted = 0;
	density->adjacent = 0;
	density->last_block = InvalidBlockNumber;
	density->level = LA_DENSITY_SPARSE;
}

/*
 * The next block of the bitmap.  Returns true when the level is another one now.
 */
bool
la_density_add(LaDensity *density, BlockNumber block)
{
	uint32		test_pages = la_trial_test_pages();
	LaDensityLevel before = density->level;
	double		share;

	if (block == density->last_block + 1)
		density->adjacent++;
	density->last_block = block;
	if (++density->counted < (test_pages > 0 ? test_pages : BLOCKS_PER_LOOK))
		return false;

	share = test_pages > 0 ? DENSE_FROM :
		(double) density->adjacent / density->counted;
	density->counted = 0;
	density->adjacent = 0;
	density->level = level_of(share, before);
	return density->level != before;
}

/*
 * With io_method = sync no part is solid: core would leave it to the read-ahead of
 * the kernel.
 */
static LaDensityLevel
level_of(double share, LaDensityLevel before)
{
	if (io_method != IOMETHOD_SYNC &&
		share >= (before == LA_DENSITY_SOLID ? SOLID_UNTIL : SOLID_FROM))
		return LA_DENSITY_SOLID;
	if (share < (before == LA_DENSITY_SPARSE ? DENSE_FROM : DENSE_UNTIL))
		return LA_DENSITY_SPARSE;
	return LA_DENSITY_DENSE;
}
