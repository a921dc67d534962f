/*-------------------------------------------------------------------------
 *
 * la_interval_check.h
 *	  whether a policy can be obeyed
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_CHECK_H
#define LA_INTERVAL_CHECK_H

#include "intervals/la_interval_grid.h"

extern void la_interval_check_steps(const LaIntervalGrid *grid);
extern void la_interval_check_options(const LaIntervalPolicy *policy,
									  const LaIntervalGrid *grid);

#endif							/* LA_INTERVAL_CHECK_H */
