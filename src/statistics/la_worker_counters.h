/*-------------------------------------------------------------------------
 *
 * la_worker_counters.h
 *	  counters of parallel workers, in the leader
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_WORKER_COUNTERS_H
#define LA_WORKER_COUNTERS_H

#include "attach/la_registry.h"

extern bool la_worker_counters_in_slice(void);
extern void la_worker_counters_watch(LaQuery *query, PlanState *gather);
extern void la_worker_counters_begin_slice(LaQuery *query);
extern void la_worker_counters_collect(LaQuery *query);
extern void la_worker_counters_end(LaQuery *query);

#endif							/* LA_WORKER_COUNTERS_H */
