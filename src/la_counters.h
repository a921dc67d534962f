/*-------------------------------------------------------------------------
 *
 * la_counters.h
 *	  what is counted, and how each counter is shown
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_COUNTERS_H
#define LA_COUNTERS_H

/*
 * Counters of one plan node or index build, or of all of a feature.  Nothing but
 * uint64, so that they can be added up anywhere.  Their order is that in which
 * EXPLAIN and the view show them; a field has a row in la_counters.c.
 */
typedef struct LaCounters
{
	uint64		scans;			/* scans that looked ahead, index builds, or
								 * inserts in batches */
	uint64		prefetched;		/* table pages looked ahead at */
	uint64		requests;		/* times the kernel was asked */
	uint64		advised;		/* pages for which the kernel was asked */
	uint64		bridged;		/* pages asked for between those, unwanted */
	uint64		pauses;			/* asking was of no use: all was in memory */
	uint64		direct;			/* pages read on their turn only */
	uint64		repeated;		/* entries on the page of the entry before */
	uint64		distance_sum;	/* sum over pages of the requests ahead then */
	uint64		distance_max;	/* most requests ahead at once */
	uint64		killed;			/* index entries found dead by look-ahead */
	uint64		restarts;		/* look-ahead stopped and started again */
	uint64		rows;			/* inserted in batches */
	uint64		batches;		/* of them */
	uint64		extensions;		/* times a table was extended in bulk */
	uint64		extended;		/* pages that it was extended by then */
	uint64		sorted;			/* index entries sorted before insertion */
	uint64		drawn;			/* outer rows of a join drawn ahead */
} LaCounters;

#define LA_COUNTER_COUNT (sizeof(LaCounters) / sizeof(uint64))

/* Where a counter is in LaCounters, and in the table of counters. */
#define LA_COUNTER_POSITION(field) \
	(offsetof(LaCounters, field) / sizeof(uint64))

/* A set of one counter, and of all from one to another. */
#define LA_COUNTER(field) (UINT64CONST(1) << LA_COUNTER_POSITION(field))
#define LA_COUNTERS(first, last) ((LA_COUNTER(last) << 1) - LA_COUNTER(first))

/*
 * What each kind of scan counts.  One for which some of it has no meaning has 0
 * there in the view, and EXPLAIN does not show it.
 */
#define LA_SCAN_COUNTERS LA_COUNTERS(scans, restarts)

typedef struct LaCounter
{
	const char *name;			/* in EXPLAIN's text; NULL of the largest
								 * distance, which follows the mean */
	const char *label;			/* in EXPLAIN's other formats */
	const char *column;			/* of pg_stat_lookahead; NULL of the distance */
} LaCounter;

/* How many the view shows: all but the two of the distance. */
#define LA_COUNTER_COLUMNS (LA_COUNTER_COUNT - 2)

extern const LaCounter la_counter_table[LA_COUNTER_COUNT];

extern uint64 la_counter_value(const LaCounters *counters, int position);
extern void la_counters_add(LaCounters *sum, const LaCounters *counters);

/*
 * Has nothing been counted?
 */
static inline bool
la_counters_are_zero(const LaCounters *counters)
{
	static const LaCounters nothing = {0};

	return memcmp(counters, &nothing, sizeof(nothing)) == 0;
}

/*
 * Is a counter in a set of LA_COUNTER()s?
 */
static inline bool
la_counter_in(uint64 set, int position)
{
	return (set & (UINT64CONST(1) << position)) != 0;
}

#endif							/* LA_COUNTERS_H */
