/*-------------------------------------------------------------------------
 *
 * la_worker_counters.h
 *	  counters of parallel workers: handed on by the worker, added to the
 *	  leader's plan nodes
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_WORKER_COUNTERS_H
#define LA_WORKER_COUNTERS_H

#include "attach/la_registry.h"

extern bool la_worker_counters_in_slice(void);
extern void la_worker_counters_watch(LaQuery *query, PlanState *gather);
extern void la_worker_counters_begin_slice(LaQuery *query, bool looked_at);
extern void la_worker_counters_collect(LaQuery *query);
extern void la_worker_counters_end(LaQuery *query);

#endif							/* LA_WORKER_COUNTERS_H */
