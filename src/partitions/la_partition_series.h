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
	char	   *(*bound) (const LaPartitionSeries *series, int i);
	char	   *(*label) (const LaPartitionSeries *series, int i);
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
};

extern LaPartitionSeries *la_partition_series_ranges(Oid key_type,
													 const char *start,
													 const char *step,
													 int count);
extern LaPartitionSeries *la_partition_series_values(char **values, int count);

/*
 * The bound number i, or NULL for a null: of a list the values, of ranges
 * 0..count, of which i is the lower bound of partition i and i + 1 its upper
 * one.  Any session of this time zone reads the text as the same value.
 */
static inline char *
la_partition_series_bound(const LaPartitionSeries *series, int i)
{
	return series->methods->bound(series, i);
}

/*
 * What partition i is called for its bound.
 */
static inline char *
la_partition_series_label(const LaPartitionSeries *series, int i)
{
	return series->methods->label(series, i);
}

#endif							/* LA_PARTITION_SERIES_H */
