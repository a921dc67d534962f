/*-------------------------------------------------------------------------
 *
 * la_partition_series.h
 *	  which partitions were asked for: their bounds, as texts
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PARTITION_SERIES_H
#define LA_PARTITION_SERIES_H

#include "datatype/timestamp.h"

typedef struct LaPartitionSeries LaPartitionSeries;

/* How bounds are made of a start, a step and a number, and how they are named. */
typedef struct LaSeriesMethods
{
	char	   *(*bound) (const LaPartitionSeries *series, int64 i);
	char	   *(*label) (const LaPartitionSeries *series, char *bound);
	int64		(*find) (const LaPartitionSeries *series, char *value);
} LaSeriesMethods;

/* How much of a time is in a name. */
typedef enum LaTimePrecision
{
	LA_TIME_DAYS,
	LA_TIME_MINUTES,
	LA_TIME_SECONDS,
	LA_TIME_MICROSECONDS
} LaTimePrecision;

struct LaPartitionSeries
{
	const LaSeriesMethods *methods;
	int			count;			/* partitions */
	const LaPartitionSeries *grid;	/* that these are a part of, or NULL */
	int64		first;			/* the first of them, counted from the start */
	bool		is_list;		/* else of ranges */
	Oid			key_type;		/* of ranges: what the steps are made in */

	int64		integer_start;
	int64		integer_step;
	Datum		numeric_start;
	Datum		numeric_step;
	Timestamp	time_start;		/* or TimestampTz, as key_type says */
	Interval	time_step;
	LaTimePrecision precision;
	bool		in_utc;			/* names are */
	char	  **values;			/* of lists, NULL for a null; else 0, 1, 2 */
	const char *value_type;		/* to be cast to that of the key, or NULL */
	char	   *ends[2];		/* of one range with any bounds, else NULL */
};

extern LaPartitionSeries *la_partition_series_ranges(Oid key_type,
													 const char *start,
													 const char *step,
													 int count);
extern LaPartitionSeries *la_partition_series_between(const LaPartitionSeries *grid,
													  char *lower,
													  char *upper);
extern LaPartitionSeries *la_partition_series_values(char **values, int count,
													 Oid type);
extern LaPartitionSeries *la_partition_series_part(const LaPartitionSeries *grid,
												   int64 first, int count);
extern bool la_partition_series_has(const LaPartitionSeries *series, int64 i);
extern char *la_partition_series_uuid_time(char *uuid);
extern TimestampTz la_partition_series_moment(Oid key_type, char *bound);
extern char *la_partition_series_at_moment(Oid key_type, TimestampTz moment);

/*
 * The bound number i, or NULL for a null: of a list the values, of ranges
 * 0..count, of which i is the lower bound of partition i and i + 1 its upper
 * one; ranges go on beyond both ends.  Any session of this time zone reads the
 * text as the same value.
 */
static inline char *
la_partition_series_bound(const LaPartitionSeries *series, int64 i)
{
	return series->ends[0] != NULL ? pstrdup(series->ends[i]) :
		series->methods->bound(series, series->first + i);
}

/*
 * What partition i is called for its bound.
 */
static inline char *
la_partition_series_label(const LaPartitionSeries *series, int i)
{
	return series->methods->label(series, la_partition_series_bound(series, i));
}

/*
 * Of a series of ranges the number of the one that has this value of the key,
 * which may be before the start.  Of ranges that are empty (a day that a time
 * zone left out) it is none.
 */
static inline int64
la_partition_series_find(const LaPartitionSeries *series, char *value)
{
	return series->methods->find(series, value);
}

#endif							/* LA_PARTITION_SERIES_H */
