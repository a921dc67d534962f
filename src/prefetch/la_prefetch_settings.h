/*-------------------------------------------------------------------------
 *
 * la_prefetch_settings.h
 *	  settings of all scans that ask ahead
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PREFETCH_SETTINGS_H
#define LA_PREFETCH_SETTINGS_H

#include "la_guc.h"

extern const LaSetting la_prefetch_settings[];

extern int	la_gap_limit;
extern int	la_prefetch_distance;

#ifdef LA_TEST
extern int	la_test_start_after;
extern int	la_test_trial_pages;
extern int	la_test_trial_gains;
#endif

/*
 * Pages of each phase of a trial in a test: one of the default length never ends in the
 * small tables of tests.  0 in a release.
 */
static inline uint32
la_trial_test_pages(void)
{
#ifdef LA_TEST
	return la_test_trial_pages;
#else
	return 0;
#endif
}

/*
 * Does a trial in a test find that asking gains?  -1 where the times decide.
 */
static inline int
la_trial_test_gains(void)
{
#ifdef LA_TEST
	return la_test_trial_gains;
#else
	return -1;
#endif
}

#endif							/* LA_PREFETCH_SETTINGS_H */
