/*-------------------------------------------------------------------------
 *
 * trial_clock.c
 *	  la_trial.c with a clock that a test moves
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

extern void clock_advance(int64 nanoseconds);

static int64 elapsed = 0;

static int
test_clock_gettime(clockid_t clock, struct timespec *now)
{
	(void) clock;
	now->tv_sec = elapsed / 1000000000;
	now->tv_nsec = elapsed % 1000000000;
	return 0;
}

void
clock_advance(int64 nanoseconds)
{
	elapsed += nanoseconds;
}

#define clock_gettime test_clock_gettime
#include "prefetch/la_trial.c"
