/*-------------------------------------------------------------------------
 *
 * la_join_trial.c
 *	  whether a join gains by asking where that is doubtful
 *
 * Where the outer rows come in the order of the inner table, the kernel reads
 * its pages ahead by itself, once it has seen a few.  If the device is quick,
 * that is all there is to gain, and to look rows up ahead of their turn costs
 * more than it saves.  If each read takes long, the kernel's window is too
 * short, and asking gains several times.
 *
 * Where most rows find their pages in memory, shared buffers or the kernel's,
 * to look all of them up ahead costs about as much as the few reads that it
 * saves on a quick device, and much less than those on a slow one.
 *
 * So there the join tries (la_trial.c): not to ask is to sleep.  While it
 * sleeps because that was as fast, it wakes now and then for a few pages: only
 * a join that is awake sees in which order they come.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join/la_join_trial.h"
#include "prefetch/la_prefetch_settings.h"
#include "prefetch/la_wake.h"

/* Pages after which it is looked at their order: arbitrary. */
#define PAGES_PER_LOOK 64

/* The first page of the table and that of the index are near none. */
#define FIRST_PAGES 2

/* How many pages of a look are near in order: arbitrary, at random hardly any is. */
#define NEAR_PAGES 56

/* The same once they are, or a trial would begin anew again and again: arbitrary. */
#define STILL_NEAR_PAGES 32

/*
 * How far a near page is from the one before, on either side: rows that have waited for
 * a page of the index want theirs later than others.  Arbitrary, the kernel reads as
 * much with its usual read-ahead.
 */
#define NEAR_BLOCKS 32

/*
 * Rows, or pages that they want, for each page from a device above which it is tried: a
 * row is looked up ahead in one microsecond or ten, and read requests of a local disk
 * save 40 or more.  Arbitrary.
 */
#define SPARSE_ROWS 8

/* The same once it is sparse: arbitrary. */
#define STILL_SPARSE_ROWS 4

/* The part of a trial's usual pages, of which the kernel reads none ahead: arbitrary. */
#define SPARSE_DIVISOR 16

/* Fewest pages of a look by which that part grows: arbitrary, see begin_trial(). */
#define FEWEST_TRIED 32

/*
 * The part of a trial's usual pages in order: no more was asked for before
 * than the pages of a look.  Arbitrary, but that 2 MB take long enough to be
 * compared.
 */
#define IN_ORDER_DIVISOR 4

/* Reads between two looks of a join that sleeps: arbitrary. */
#define READS_PER_LOOK 8192

/* How many times as fast asking has to be, as for bitmap scans. */
#define ASKING_FASTER 1.1

static void
begin_trial(LaJoinTrial *trial)
{
	/*
	 * Where rows want fewer pages, fewer pages are tried, down to a half: to
	 * ask costs as much for each row.
	 */
	uint32		sparse_divisor = SPARSE_DIVISOR * PAGES_PER_LOOK / Max(trial->wanted, FEWEST_TRIED);

	if (trial->doubt == LA_JOIN_SPARSE)
		la_trial_start(&trial->trial, ASKING_FASTER, sparse_divisor, sparse_divisor);
	else
		la_trial_start(&trial->trial, ASKING_FASTER, IN_ORDER_DIVISOR, 1);
}

static void
begin_look(LaJoinTrial *trial)
{
	trial->wanted = 0;
	trial->near = 0;
	trial->device_pages = 0;
}

static bool
has_order(const LaJoinTrial *trial)
{
	if (la_trial_test_pages() > 0)
		return true;
	return trial->near >= (trial->doubt == LA_JOIN_IN_ORDER ?
						   STILL_NEAR_PAGES : NEAR_PAGES) &&
		!la_wake_forced();
}

/*
 * Since the last look so many rows were drawn.  After one that found enough
 * pages, another one has to agree: the pages that are looked at are a part of
 * all.
 */
static LaJoinDoubt
find_doubt(LaJoinTrial *trial, uint32 rows)
{
	uint32		sparse_rows = trial->doubt == LA_JOIN_SPARSE ?
		STILL_SPARSE_ROWS : SPARSE_ROWS;
	bool		was_dense = trial->dense;

	if (has_order(trial))
		return LA_JOIN_IN_ORDER;
	trial->dense = Max(rows, trial->wanted) <= sparse_rows * trial->device_pages || la_wake_forced();
	return trial->dense || was_dense ? LA_JOIN_NO_DOUBT : LA_JOIN_SPARSE;
}

/*
 * As has_order(), of fewer pages, where nobody has said so yet.
 */
static bool
seems_in_order(const LaJoinTrial *trial)
{
	return trial->doubt != LA_JOIN_IN_ORDER && trial->near > 0 &&
		trial->near + FIRST_PAGES >= trial->wanted;
}

/*
 * A page of the table or of the index will have to be read, and the one before it, of the same
 * relation, was "last"; so many rows were drawn until then.  Notes whether there is a doubt.
 */
void
la_join_trial_wanted(LaJoinTrial *trial, BlockNumber last, BlockNumber block,
					 uint32 rows)
{
	int64		step = (int64) block - last;
	LaJoinDoubt before = trial->doubt;

	if (trial->looking && trial->wanted == 0)
		trial->rows = rows;
	if (step >= -NEAR_BLOCKS && step <= NEAR_BLOCKS)
		trial->near++;

	/*
	 * Where few pages are wanted, rows end a look: soon while all are in
	 * order.
	 */
	if (++trial->wanted < PAGES_PER_LOOK && la_trial_test_pages() == 0 &&
		rows - trial->rows <= (seems_in_order(trial) ? Max(SPARSE_ROWS * trial->wanted, PAGES_PER_LOOK) :
							   PAGES_PER_LOOK * SPARSE_ROWS))
		return;

	trial->doubt = find_doubt(trial, rows - trial->rows);
	if (trial->doubt != before && trial->doubt != LA_JOIN_NO_DOUBT)
		begin_trial(trial);
	else if (2 * trial->device_pages >= trial->wanted)
		la_trial_end_change(&trial->trial);
	trial->rows = rows;
	trial->looking = false;
	trial->reads = la_reads();
	begin_look(trial);
}

/*
 * The join comes to another row, or reads a page asleep.  Returns whether it shall ask.
 */
bool
la_join_trial_asks(LaJoinTrial *trial)
{
	int64		pages = la_reads() - trial->reads;

	if (trial->doubt == LA_JOIN_NO_DOUBT || trial->looking)
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
		begin_look(trial);
	}
	return trial->looking;
}
