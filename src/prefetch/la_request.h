/*-------------------------------------------------------------------------
 *
 * la_request.h
 *	  requests to the kernel to read pages ahead: each one, and how many there may be
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_REQUEST_H
#define LA_REQUEST_H

#include "storage/block.h"
#include "utils/relcache.h"

#include "la_counters.h"
#include "prefetch/la_range_planner.h"
#include "prefetch/la_residency.h"

extern bool la_request_possible(void);
extern int	la_request_limit(Relation relation);
extern bool la_request_is_needed(Relation relation, BlockNumber block);
extern void la_request_make(Relation relation, const LaRange *range,
							LaResidency *residency, LaCounters *counters);
extern int64 la_request_make_counted(Relation relation, const LaRange *range,
									 LaResidency *residency, LaCounters *counters);

#endif							/* LA_REQUEST_H */
