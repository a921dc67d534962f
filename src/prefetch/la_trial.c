/*-------------------------------------------------------------------------
 *
 * la_trial.c
 *	  finds out by trial whether a scan gains by asking ahead
 *
 * Core's stream has a few reads of io_combine_limit in flight, or what the OS
 * reads ahead.  Where that keeps the device busy, asking for more costs
 * processor time and gains nothing; where each read takes long, it gains several
 * times.  Settings do not tell the one from the other, so the scan tries: it reads
 * some pages without asking, then as many with asking, and goes on asking only
 * if that was clearly faster, by the factor that the scan gives, until the next trial.
 * For a bitmap scan, not to ask is core's stream (la_stream_switch.c), for a join to sleep.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "prefetch/la_trial.h"

/*
 * Pages of each phase: 8 MB are measured, and the trial is repeated after 1 GB
 * of pages of 8 kB.  Arbitrary, but that 16 MB pass unmeasured at each change:
 * what had been asked for before it, or what the kernel has read ahead, up to
 * twice 8 MB where its read_ahead_kb is 8192, would count as read in no time.
 */
static const uint32 phase_pages[] = {
	[LA_TRIAL_SETTLE] = 2048,
	[LA_TRIAL_PLAIN] = 1024,
	[LA_TRIAL_CHANGE] = 2048,
	[LA_TRIAL_ASKED] = 1024,
	[LA_TRIAL_DECIDED] = 131072,
};

/*
 * A page that comes in less than so many microseconds leaves nothing to gain:
 * to ask for one takes some five, 80 for 128 kB on a virtual machine, and
 * PostgreSQL's workers take that time elsewhere.
 */
#define LEAST_PAGE_US 10

static inline uint32
pages_of(LaTrialPhase phase, uint32 divisor)
{
	return la_trial_test_pages() > 0 ? la_trial_test_pages() :
		phase_pages[phase] / divisor;
}

static inline uint32
pages_of_phase(const LaTrial *trial)
{
	return pages_of(trial->phase, trial->phase == LA_TRIAL_CHANGE ?
					trial->safe_divisor : trial->divisor);
}

static bool
may_gain(const LaTrial *trial)
{
	return la_trial_test_pages() > 0 || la_trial_test_gains() >= 0 ||
		INSTR_TIME_GET_MICROSEC(trial->plain) >= LEAST_PAGE_US * (uint64) pages_of(LA_TRIAL_PLAIN, trial->divisor);
}

static bool
gains(const LaTrial *trial, instr_time asked)
{
	if (la_trial_test_gains() >= 0)
		return la_trial_test_gains() > 0;
	return INSTR_TIME_GET_DOUBLE(asked) * trial->factor < INSTR_TIME_GET_DOUBLE(trial->plain);
}

/*
 * Pages of a scan that is not worth a trial, which asks for some in vain:
 * arbitrary, those of a whole one before it asks.
 */
uint32
la_trial_least_pages(void)
{
	return pages_of(LA_TRIAL_SETTLE, 1) + pages_of(LA_TRIAL_PLAIN, 1);
}

/*
 * Begins with the first phase: the scan meets pages that have to be read.  It
 * shall ask where that makes it more than `factor` times as fast.  Where
 * little was asked for before, the usual numbers of pages can be divided;
 * where the kernel reads nothing ahead either, that of CHANGE and of later
 * trials, too.
 */
void
la_trial_start(LaTrial *trial, double factor, uint32 divisor, uint32 safe_divisor)
{
	memset(trial, 0, sizeof(LaTrial));
	trial->factor = factor;
	trial->divisor = divisor;
	trial->safe_divisor = safe_divisor;
}

/*
 * The scan knows that the pages for which it asks now are not in memory: what
 * the kernel had read ahead has been read.
 */
void
la_trial_end_change(LaTrial *trial)
{
	if (trial->phase == LA_TRIAL_CHANGE)
		trial->pages = pages_of_phase(trial);
}

/*
 * The scan has come to so many other pages.  Returns whether it shall ask for pages
 * ahead.
 */
bool
la_trial_pages(LaTrial *trial, uint32 pages)
{
	instr_time	now;
	instr_time	elapsed;

	trial->pages += pages;
	if (trial->pages < pages_of_phase(trial))
		return trial->ask;

	INSTR_TIME_SET_CURRENT(now);
	elapsed = now;
	INSTR_TIME_SUBTRACT(elapsed, trial->began);
	trial->began = now;
	trial->pages = 0;

	switch (trial->phase)
	{
		case LA_TRIAL_SETTLE:
			trial->phase = LA_TRIAL_PLAIN;
			break;
		case LA_TRIAL_PLAIN:
			trial->plain = elapsed;
			trial->ask = may_gain(trial);
			trial->phase = trial->ask ? LA_TRIAL_CHANGE : LA_TRIAL_DECIDED;
			break;
		case LA_TRIAL_CHANGE:
			trial->phase = LA_TRIAL_ASKED;
			break;
		case LA_TRIAL_ASKED:
			trial->ask = gains(trial, elapsed);
			trial->phase = LA_TRIAL_DECIDED;
			break;
		case LA_TRIAL_DECIDED:
			trial->ask = false;
			trial->divisor = trial->safe_divisor;
			trial->phase = LA_TRIAL_SETTLE;
			break;
	}
	return trial->ask;
}
