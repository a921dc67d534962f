/*-------------------------------------------------------------------------
 *
 * la_request.h
 *	  one request to the kernel to read pages ahead
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_REQUEST_H
#define LA_REQUEST_H

#include "utils/relcache.h"

#include "la_counters.h"
#include "prefetch/la_range_planner.h"
#include "prefetch/la_residency.h"

extern bool la_request_possible(void);
extern void la_request_make(Relation relation, const LaRange *range,
							LaResidency *residency, LaCounters *counters);

#endif							/* LA_REQUEST_H */
