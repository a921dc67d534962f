/*-------------------------------------------------------------------------
 *
 * la_interval_try.h
 *	  steps of maintenance whose errors are caught
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_TRY_H
#define LA_INTERVAL_TRY_H

#include "la_try.h"

extern ErrorData *la_interval_try(LaTriedWork work, void *arg);
extern bool la_interval_interrupted(const ErrorData *error, int sqlstate);

#endif							/* LA_INTERVAL_TRY_H */
