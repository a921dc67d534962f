/*-------------------------------------------------------------------------
 *
 * la_totals.h
 *	  all that is counted, by a session or in the whole cluster
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_TOTALS_H
#define LA_TOTALS_H

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

extern void la_totals_add(LaTotals *sum, const LaTotals *totals);
extern uint64 la_totals_nodes(const LaFeatureTotals *totals);

#endif							/* LA_TOTALS_H */
