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

#include "statistics/la_totals.h"

extern void la_cluster_stats_register(void);
extern bool la_cluster_stats_active(void);
extern LaTotals *la_cluster_stats_pending(void);
extern const LaTotals *la_cluster_stats_fetch(TimestampTz *reset);
extern bool la_cluster_stats_reset(void);

#endif							/* LA_CLUSTER_STATS_H */
