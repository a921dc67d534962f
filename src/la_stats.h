/*-------------------------------------------------------------------------
 *
 * la_stats.h
 *	  what is counted, and why a node was left to core
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_STATS_H
#define LA_STATS_H

#include "la_feature.h"

/*
 * Why a scan or an index build is left to core's own code.  The texts
 * are in la_stats.c; docs/explain.md explains each.
 */
typedef enum LaReason
{
	LA_REASON_NONE,				/* not left to core */
	LA_REASON_INDEX_ONLY,
	LA_REASON_ORDER_BY_OPERATOR,
	LA_REASON_INDEX_AM,
	LA_REASON_TABLE_AM,
	LA_REASON_OTHER_TEMP,
	LA_REASON_SCROLL,
	LA_REASON_MARK_RESTORE,
	LA_REASON_SNAPSHOT,
	LA_REASON_OTHER_EXTENSION,
	LA_REASON_SELF_CHECK,
	LA_REASON_SYSTEM_CATALOG,
	LA_REASON_KEY_TYPE,
	LA_REASON_COLLATION,
	LA_REASON_BULK_READ_SIZE,
	LA_REASON_DIRECT_IO,
	LA_REASON_DISABLED,			/* only shown, never counted */
} LaReason;

#define LA_REASON_COUNT (LA_REASON_DISABLED + 1)

/*
 * Counters of scans: of one plan node, or of all nodes of a feature.
 * No pointers, so that they can be added up anywhere.
 */
typedef struct LaScanCounters
{
	uint64		scans;			/* scans that looked ahead */
	uint64		prefetched;		/* table pages looked ahead at */
	uint64		requests;		/* times the kernel was asked */
	uint64		advised;		/* pages for which the kernel was asked */
	uint64		bridged;		/* pages asked for between those, unwanted */
	uint64		pauses;			/* asking was of no use: all was in memory */
	uint64		direct;			/* pages read on their turn only */
	uint64		repeated;		/* entries on the page of the entry before */
	uint64		killed;			/* index entries found dead by look-ahead */
	uint64		restarts;		/* look-ahead stopped and started again */
	uint64		distance_sum;	/* sum over pages of the requests ahead then */
	uint64		distance_max;	/* most requests ahead at once */
} LaScanCounters;

/*
 * All that is counted for one feature.  Index builds have none of the counters
 * of scans.
 */
typedef struct LaFeatureTotals
{
	uint64		nodes[LA_REASON_COUNT]; /* scan nodes of queries that started,
										 * or index builds: ours, or left to
										 * core */
	LaScanCounters scans;
} LaFeatureTotals;

/*
 * All that is counted: by a session, or in the whole cluster.
 */
typedef struct LaTotals
{
	LaFeatureTotals features[LA_FEATURE_COUNT];
} LaTotals;

extern void la_stats_init(void);
extern const char *la_reason_text(LaReason reason);
extern void la_scan_counters_add(LaScanCounters *sum,
								 const LaScanCounters *counters);
extern void la_totals_add(LaTotals *sum, const LaTotals *totals);
extern void la_stats_count(LaFeature feature, LaReason reason,
						   bool in_slice);
extern void la_stats_add_scan(LaFeature feature,
							  const LaScanCounters *counters);
extern void la_stats_add_workers(LaFeature feature,
								 const LaScanCounters *counters);

#endif							/* LA_STATS_H */
