/*-------------------------------------------------------------------------
 *
 * la_join_trial.c
 *	  whether a join in table order gains by asking
 *
 * Where the outer rows come in the order of the inner table, the kernel reads its pages
 * ahead by itself, once it has seen a few.  If the device is quick, that is all there is to
 * gain, and to look rows up ahead of their turn costs more than it saves.  If each read takes long, the
 * kernel's window is too short, and asking gains several times.  So there the join tries
 * (la_trial.c): not to ask is to sleep.  While it sleeps because that was as fast, it
 * wakes now and then for a few pages: only a join that is awake sees in which order they come.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join/la_join_trial.h"
#include "prefetch/la_prefetch_settings.h"
#include "prefetch/la_wake.h"

/*
 * Pages after which it is looked at their order; how many of them have to be near; and how
 * far from the one before a near one is, before it or behind it: rows that have waited for a page of
 * the index want theirs later than others.  Once they are in order, fewer suffice, or a trial would begin anew
 * again and again.  Arbitrary, but that of pages in random order hardly
 * any is near, and that the kernel reads as much with its usual read-ahead.
 */
#define PAGES_PER_LOOK 64
#define NEAR_PAGES 56
#define STILL_NEAR_PAGES 32
#define NEAR_BLOCKS 32

/* Reads between two looks of a join that sleeps: a look draws some 500 rows. */
#define READS_PER_LOOK 8192

/* How many times as fast asking has to be, as for bitmap scans. */
#define ASKING_FASTER 1.1

static bool has_order(const LaJoinTrial *trial);

/*
 * A page of the table or of the index will have to be read, and the one before it, of the same
 * relation, was "last": notes whether they come in order.
 */
void
la_join_trial_wanted(LaJoinTrial *trial, BlockNumber last, BlockNumber block)
{
	int64		step = (int64) block - last;

	if (step >= -NEAR_BLOCKS && step <= NEAR_BLOCKS)
		trial->near++;
	if (++trial->wanted < PAGES_PER_LOOK && la_trial_test_pages() == 0)
		return;

	if (!has_order(trial))
		trial->in_order = false;
	else if (!trial->in_order)
	{
		trial->in_order = true;
		la_trial_start(&trial->trial, ASKING_FASTER);
	}
	trial->looking = false;
	trial->reads = la_reads();
	trial->wanted = 0;
	trial->near = 0;
}

static bool
has_order(const LaJoinTrial *trial)
{
	if (la_trial_test_pages() > 0)
		return true;
	return trial->near >= (trial->in_order ? STILL_NEAR_PAGES : NEAR_PAGES) &&
		!la_wake_forced();
}

/*
 * The join comes to another row, or reads a page asleep.  Returns whether it shall ask.
 */
bool
la_join_trial_asks(LaJoinTrial *trial)
{
	int64		pages = la_reads() - trial->reads;

	if (!trial->in_order || trial->looking)
		return true;
	trial->reads += pages;
	if (la_trial_test_pages() > 0)
		pages = 1;
	if (la_trial_pages(&trial->trial, pages))
		return true;

	if (trial->trial.phase != LA_TRIAL_DECIDED)
		trial->asleep = 0;
	else
		trial->asleep += pages;
	trial->looking = trial->asleep >= READS_PER_LOOK;
	if (trial->looking)
	{
		trial->asleep = 0;
		trial->wanted = 0;
		trial->near = 0;
	}
	return trial->looking;
}
