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
gains(const LaTrial *trial, instr_time asked)
{
#ifdef LA_TEST
	if (la_test_trial_gains >= 0)
		return la_test_trial_gains > 0;
#endif
	return INSTR_TIME_GET_DOUBLE(asked) * trial->factor < INSTR_TIME_GET_DOUBLE(trial->plain);
}

/*
 * Pages that a scan has behind it when it first asks, of a trial with this divisor.
 */
uint32
la_trial_pages_before_asking(uint32 divisor)
{
	return pages_of(LA_TRIAL_SETTLE, divisor) + pages_of(LA_TRIAL_PLAIN, divisor);
}

/*
 * Begins with the first phase: the scan meets pages that have to be read.  It
 * shall ask where that makes it more than `factor` times as fast.  Where little was asked for before, the usual numbers
 * of pages can be divided; where the kernel reads nothing ahead either, that of CHANGE and of later trials, too.
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
 * The scan knows that the pages for which it asks now are not in memory: what the kernel had read ahead has been read.
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
			trial->ask = true;
			trial->phase = LA_TRIAL_CHANGE;
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
