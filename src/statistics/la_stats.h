/*-------------------------------------------------------------------------
 *
 * la_stats.h
 *	  what this process has counted
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_STATS_H
#define LA_STATS_H

#include "statistics/la_cluster_stats.h"

extern void la_stats_count(LaFeature feature, LaReason reason, bool in_slice);
extern void la_stats_recount(LaFeature feature, LaReason reason,
							 bool in_slice);
extern void la_stats_add(LaFeature feature, const LaCounters *counters);
extern void la_stats_add_workers(LaFeature feature,
								 const LaCounters *counters);

#endif							/* LA_STATS_H */
