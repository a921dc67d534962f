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
#endif

#endif							/* LA_PREFETCH_SETTINGS_H */
