/*-------------------------------------------------------------------------
 *
 * la_cluster_stats.h
 *	  counts of the whole cluster, in core's cumulative statistics
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_CLUSTER_STATS_H
#define LA_CLUSTER_STATS_H

#include "datatype/timestamp.h"

#include "la_counters.h"
#include "la_feature.h"
#include "la_reason.h"

typedef struct LaFeatureTotals
{
	uint64		nodes[LA_REASON_COUNT]; /* scan nodes of queries that started,
										 * or index builds: ours, or left to
										 * core */
	LaCounters	counters;
} LaFeatureTotals;

typedef struct LaTotals
{
	LaFeatureTotals features[LA_FEATURE_COUNT];
} LaTotals;

extern void la_cluster_stats_register(void);
extern LaTotals *la_cluster_stats_pending(void);
extern const LaTotals *la_cluster_stats_fetch(TimestampTz *reset);
extern bool la_cluster_stats_reset(void);

#endif							/* LA_CLUSTER_STATS_H */
