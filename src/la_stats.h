/*-------------------------------------------------------------------------
 *
 * la_stats.h
 *	  what is counted, and why a node was left to core
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_STATS_H
#define LA_STATS_H

/*
 * Why an index scan or an index build is left to core's own code.  The texts
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
	LA_REASON_DISABLED,			/* only shown, never counted */
} LaReason;

#define LA_REASON_COUNT (LA_REASON_DISABLED + 1)

/*
 * Counters of index scans: of one plan node, or of all nodes of a backend.
 * No pointers, so that they can be added up anywhere.
 */
typedef struct LaScanCounters
{
	uint64		scans;			/* scans for which a read stream was built */
	uint64		prefetched;		/* table pages that came through the stream */
	uint64		advised;		/* pages for which the kernel was asked */
	uint64		direct;			/* pages read on their turn: already queued */
	uint64		repeated;		/* entries on the page of the entry before */
	uint64		killed;			/* index entries found dead by look-ahead */
	uint64		restarts;		/* look-ahead stopped and started again */
	uint64		distance_sum;	/* sum over pages of the pages asked for then */
	uint64		distance_max;	/* most pages asked for at once */
} LaScanCounters;

extern const char *la_reason_text(LaReason reason);
extern void la_stats_count_node(LaReason reason);
extern void la_stats_count_build(LaReason reason);
extern void la_stats_add_scan(const LaScanCounters *counters);

#endif							/* LA_STATS_H */
