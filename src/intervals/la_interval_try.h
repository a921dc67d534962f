/*-------------------------------------------------------------------------
 *
 * la_interval_try.h
 *	  work whose errors are caught
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_TRY_H
#define LA_INTERVAL_TRY_H

typedef void (*LaIntervalWork) (void *arg);

extern ErrorData *la_interval_try(LaIntervalWork work, void *arg);
extern bool la_interval_interrupted(const ErrorData *error, int sqlstate);

#endif							/* LA_INTERVAL_TRY_H */
