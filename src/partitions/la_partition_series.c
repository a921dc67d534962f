/*-------------------------------------------------------------------------
 *
 * la_partition_series.c
 *	  which partitions were asked for: their bounds, as texts
 *
 * Bounds are texts until core reads them, as those of a statement are: what a
 * key's type makes of a value, with its modifier, domain and collation, is
 * decided there alone.  Dates and times are written in ISO 8601, which every
 * DateStyle reads the same way.
 *
 * Each bound is the start and so many steps, not the bound before and a step:
 * months after the 31st of January end on the last day of each.  Of a
 * timestamp with time zone a day is one of the session's time zone, as
 * wherever an interval is added to it.
 *
 * Keys of uuid ascend by the times in uuids of version 7.
 *
 * The last bound is computed first, because whatever is out of range is so
 * there, and before anything is created.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "common/int.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "la_sql_function.h"
#include "partitions/la_partition_series.h"

/*
 * False where the type ends before.
 */
static bool
find_integer(const LaPartitionSeries *series, int64 i, int64 *bound)
{
	return !pg_mul_s64_overflow(series->integer_step, i, bound) &&
		!pg_add_s64_overflow(series->integer_start, *bound, bound) &&
		(series->key_type != INT2OID || *bound == (int16) *bound) &&
		(series->key_type != INT4OID || *bound == (int32) *bound);
}

static void
refuse_bound(Oid key_type)
{
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("a partition bound is out of range for type %s",
					format_type_be(key_type))));
}

static char *
integer_bound(const LaPartitionSeries *series, int64 i)
{
	int64		bound;

	if (!find_integer(series, i, &bound))
		refuse_bound(series->key_type);
	return psprintf(INT64_FORMAT, bound);
}

static int64
integer_find(const LaPartitionSeries *series, char *value)
{
	int64		distance;

	if (pg_sub_s64_overflow(pg_strtoint64(value), series->integer_start,
							&distance))
		refuse_bound(series->key_type);
	/* Division rounds towards zero. */
	return distance / series->integer_step -
		(distance % series->integer_step < 0 ? 1 : 0);
}

static Numeric
numeric_at(const LaPartitionSeries *series, int64 i)
{
	Datum		number = NumericGetDatum(int64_to_numeric(i));
	Datum		distance = DirectFunctionCall2(numeric_mul, number,
											   series->numeric_step);

	return DatumGetNumeric(DirectFunctionCall2(numeric_add,
											   series->numeric_start,
											   distance));
}

static char *
numeric_bound(const LaPartitionSeries *series, int64 i)
{
	return DatumGetCString(DirectFunctionCall1(numeric_out,
											   NumericGetDatum(numeric_at(series, i))));
}

/*
 * The quotient is rounded, so that it may be too large by one.
 */
static int64
numeric_find(const LaPartitionSeries *series, char *value)
{
	Datum		number = la_sql_argument_numeric(value);
	Datum		distance = DirectFunctionCall2(numeric_sub, number,
											   series->numeric_start);
	Datum		quotient = DirectFunctionCall2(numeric_div, distance,
											   series->numeric_step);
	int64		found;

	found = DatumGetInt64(DirectFunctionCall1(numeric_int8,
											  DirectFunctionCall1(numeric_floor,
																  quotient)));
	if (DatumGetBool(DirectFunctionCall2(numeric_gt,
										 NumericGetDatum(numeric_at(series, found)),
										 number)))
		found--;
	return found;
}

/*
 * A number as a part of a name that needs no quotes.
 */
static char *
number_label(const LaPartitionSeries *series, char *number)
{
	for (char *c = number; *c != '\0'; c++)
	{
		if (*c == '-')
			*c = 'm';
		else if (*c == '.')
			*c = '_';
	}
	return number;
}

static bool
has_zone(Oid key_type)
{
	return key_type == TIMESTAMPTZOID || key_type == UUIDOID;
}

static int32
multiply(int32 part, int64 i)
{
	int64		product;

	if (pg_mul_s64_overflow(part, i, &product) || product != (int32) product)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("interval out of range")));
	return (int32) product;
}

static Timestamp
time_at(const LaPartitionSeries *series, int64 i)
{
	const Interval *step = &series->time_step;
	Interval	distance;

	distance.month = multiply(step->month, i);
	distance.day = multiply(step->day, i);
	if (pg_mul_s64_overflow(step->time, i, &distance.time) ||
		INTERVAL_NOT_FINITE(&distance))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("interval out of range")));
	return DatumGetTimestamp(DirectFunctionCall2(has_zone(series->key_type)
												 ? timestamptz_pl_interval
												 : timestamp_pl_interval,
												 TimestampGetDatum(series->time_start),
												 IntervalPGetDatum(&distance)));
}

/*
 * The least uuid of the millisecond, whatever its version.
 */
static char *
uuid_text(TimestampTz time)
{
	int64		since_1970 = time +
		(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
	uint64		milliseconds;

	if (since_1970 < 0 || since_1970 / 1000 >= INT64CONST(1) << 48)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("a partition bound is out of range for uuid"),
				 errdetail("A uuid of version 7 begins with the milliseconds since 1970.")));
	milliseconds = since_1970 / 1000;
	return psprintf("%08x-%04x-0000-0000-000000000000",
					(uint32) (milliseconds >> 16),
					(uint32) (milliseconds & 0xFFFF));
}

/*
 * A timestamp as a value of the key's type.
 */
static char *
time_text(Oid key_type, Timestamp time)
{
	Datum		value = TimestampGetDatum(time);

	if (key_type == UUIDOID)
		return uuid_text(time);
	if (key_type == DATEOID)
		value = DirectFunctionCall1(timestamp_date, value);
	return JsonEncodeDateTime(NULL, value, key_type, NULL);
}

static char *
time_bound(const LaPartitionSeries *series, int64 i)
{
	return time_text(series->key_type, time_at(series, i));
}

/*
 * The time in a uuid of any version: RFC 9562 has the milliseconds since 1970 in the first 48
 * bits of version 7.
 */
static TimestampTz
uuid_time(const char *text)
{
	pg_uuid_t  *uuid = DatumGetUUIDP(DirectFunctionCall1(uuid_in,
														 CStringGetDatum(text)));
	int64		milliseconds = 0;

	for (int i = 0; i < 6; i++)
		milliseconds = milliseconds << 8 | uuid->data[i];
	return milliseconds * 1000 -
		(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
}

/*
 * A value of the key as a timestamp, of a type with time zone as one with.
 */
static Timestamp
read_time(Oid type, const char *text)
{
	Datum		value = CStringGetDatum(text);

	if (type == UUIDOID)
		return uuid_time(text);
	if (type == DATEOID)
		return DatumGetTimestamp(DirectFunctionCall1(date_timestamp,
													 DirectFunctionCall1(date_in, value)));
	return DatumGetTimestamp(DirectFunctionCall3(type == TIMESTAMPOID
												 ? timestamp_in : timestamptz_in,
												 value,
												 ObjectIdGetDatum(InvalidOid),
												 Int32GetDatum(-1)));
}

/*
 * Steps differ in length (months, days on which clocks change), so the number
 * is guessed from their mean, and the right one is near.
 */
static int64
time_find(const LaPartitionSeries *series, char *value)
{
	Timestamp	time = read_time(series->key_type, value);
	const Interval *step = &series->time_step;
	double		length = step->month * (DAYS_PER_YEAR / MONTHS_PER_YEAR * USECS_PER_DAY) +
		(double) step->day * USECS_PER_DAY + (double) step->time;
	int64		found;

	if (TIMESTAMP_NOT_FINITE(time))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("no partition begins at \"%s\"", value)));
	found = (int64) floor(((double) time - series->time_start) / length);
	while (time_at(series, found) > time)
		found--;
	while (time_at(series, found + 1) <= time)
		found++;
	return found;
}

/*
 * Year to second, in the time zone in which names are.
 */
static void
split_time(const LaPartitionSeries *series, Timestamp time, struct pg_tm *tm,
		   fsec_t *fraction)
{
	bool		local = !series->in_utc && has_zone(series->key_type);
	int			zone;

	if (timestamp2tm(time, local ? &zone : NULL, tm, fraction, NULL, NULL) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp out of range")));
}

/*
 * Steps of less than a day are named in UTC, where no hour comes twice.
 */
static char *
time_label(const LaPartitionSeries *series, char *bound)
{
	struct pg_tm tm;
	fsec_t		fraction;
	char		time[32] = "";
	bool		before_christ;

	split_time(series, read_time(series->key_type, bound), &tm,
			   &fraction);
	before_christ = tm.tm_year <= 0;
	if (series->precision == LA_TIME_MINUTES)
		snprintf(time, sizeof(time), "_%02d%02d", tm.tm_hour, tm.tm_min);
	else if (series->precision == LA_TIME_SECONDS)
		snprintf(time, sizeof(time), "_%02d%02d%02d",
				 tm.tm_hour, tm.tm_min, tm.tm_sec);
	else if (series->precision == LA_TIME_MICROSECONDS)
		snprintf(time, sizeof(time), "_%02d%02d%02d_%06d",
				 tm.tm_hour, tm.tm_min, tm.tm_sec, (int) fraction);
	return psprintf("%04d%02d%02d%s%s%s",
					before_christ ? 1 - tm.tm_year : tm.tm_year,
					tm.tm_mon, tm.tm_mday, time,
					series->in_utc ? "z" : "", before_christ ? "bc" : "");
}

static char *
list_bound(const LaPartitionSeries *series, int64 i)
{
	return series->values == NULL ? psprintf("%d", (int) i) : series->values[i];
}

static char *
list_label(const LaPartitionSeries *series, char *value)
{
	return value == NULL ? "null" : value;
}

static const LaSeriesMethods integers = {integer_bound, number_label, integer_find};
static const LaSeriesMethods numerics = {numeric_bound, number_label, numeric_find};
static const LaSeriesMethods times = {time_bound, time_label, time_find};
static const LaSeriesMethods lists = {list_bound, list_label, NULL};

static void
refuse_step(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the step of partitions must be greater than zero")));
}

static void
begin_numerics(LaPartitionSeries *series, const char *start, const char *step)
{
	Datum		zero = NumericGetDatum(int64_to_numeric(0));

	series->methods = &numerics;
	series->numeric_start = la_sql_argument_numeric(start);
	series->numeric_step = la_sql_argument_numeric(step);
	if (!DatumGetBool(DirectFunctionCall2(numeric_gt, series->numeric_step,
										  zero)) ||
		numeric_is_nan(DatumGetNumeric(series->numeric_step)) ||
		numeric_is_inf(DatumGetNumeric(series->numeric_step)))
		refuse_step();
	if (numeric_is_nan(DatumGetNumeric(series->numeric_start)) ||
		numeric_is_inf(DatumGetNumeric(series->numeric_start)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the start of partitions must be finite")));
}

/*
 * How much of each bound has to be in a name so that all differ.
 */
static LaTimePrecision
precision_of(const LaPartitionSeries *series)
{
	struct pg_tm tm;
	fsec_t		fraction;

	split_time(series, series->time_start, &tm, &fraction);
	if (fraction != 0 || series->time_step.time % USECS_PER_SEC != 0)
		return LA_TIME_MICROSECONDS;
	if (tm.tm_sec != 0 || series->time_step.time % USECS_PER_MINUTE != 0)
		return LA_TIME_SECONDS;
	if (tm.tm_min != 0 || tm.tm_hour != 0 || series->time_step.time != 0)
		return LA_TIME_MINUTES;
	return LA_TIME_DAYS;
}

static void
begin_times(LaPartitionSeries *series, const char *start, const char *step)
{
	const Interval *length;

	series->methods = &times;
	series->time_start = read_time(series->key_type == UUIDOID
								   ? TIMESTAMPTZOID : series->key_type, start);
	if (TIMESTAMP_NOT_FINITE(series->time_start))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the start of partitions must be finite")));
	series->time_step = *la_sql_argument_interval(step, "step");

	/* Whether bounds in such steps ascend is seen by core, bound by bound. */
	length = &series->time_step;
	if (INTERVAL_NOT_FINITE(length) ||
		length->month < 0 || length->day < 0 || length->time < 0 ||
		(length->month == 0 && length->day == 0 && length->time == 0))
		refuse_step();
	if (series->key_type == DATEOID && length->time != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the step of partitions by date must be of whole days")));

	series->in_utc = series->time_step.time != 0 && has_zone(series->key_type);
	series->precision = precision_of(series);
}

/*
 * Ranges of a key of this type, which is not a domain.
 */
LaPartitionSeries *
la_partition_series_ranges(Oid key_type, const char *start, const char *step,
						   int count)
{
	LaPartitionSeries *series = palloc0_object(LaPartitionSeries);

	series->count = count;
	series->key_type = key_type;
	switch (key_type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
			series->methods = &integers;
			series->integer_start = pg_strtoint64(start);
			series->integer_step = pg_strtoint64(step);
			if (series->integer_step <= 0)
				refuse_step();
			break;
		case NUMERICOID:
			begin_numerics(series, start, step);
			break;
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case UUIDOID:
			begin_times(series, start, step);
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot make steps in type %s",
							format_type_be(key_type)),
					 errdetail("The partition key must be of a type of integers, numeric, date, timestamp, timestamptz or uuid.")));
	}
	(void) la_partition_series_bound(series, count);
	return series;
}

/*
 * One range with these bounds, called as one of a grid of ranges would be that
 * begins there.
 */
LaPartitionSeries *
la_partition_series_between(const LaPartitionSeries *grid, char *lower,
							char *upper)
{
	LaPartitionSeries *series = palloc_object(LaPartitionSeries);

	*series = *grid;
	series->count = 1;
	series->ends[0] = lower;
	series->ends[1] = upper;
	if (series->methods == &times)
	{
		series->time_start = read_time(series->key_type, lower);
		series->precision = Max(grid->precision, precision_of(series));
	}
	return series;
}

/*
 * So many ranges of a grid, from this one on.
 */
LaPartitionSeries *
la_partition_series_part(const LaPartitionSeries *grid, int64 first, int count)
{
	LaPartitionSeries *series = palloc_object(LaPartitionSeries);

	*series = *grid;
	series->grid = grid;
	series->first = first;
	series->count = count;
	return series;
}

/*
 * Whether there is such a bound: integers end.
 */
bool
la_partition_series_has(const LaPartitionSeries *series, int64 i)
{
	int64		bound;

	return series->methods != &integers || find_integer(series, i, &bound);
}

/*
 * A list of these values; without values the numbers 0, 1, 2 up to the count.  With a type
 * they are texts of values of that type.
 */
LaPartitionSeries *
la_partition_series_values(char **values, int count, Oid type)
{
	LaPartitionSeries *series = palloc0_object(LaPartitionSeries);

	series->methods = &lists;
	series->count = count;
	series->is_list = true;
	series->values = values;
	if (OidIsValid(type))
		series->value_type = format_type_be_qualified(type);
	return series;
}

/*
 * The start of a series that begins with this uuid.
 */
char *
la_partition_series_uuid_time(char *uuid)
{
	return time_text(TIMESTAMPTZOID, uuid_time(uuid));
}

/*
 * When a bound of a key of times is, in this time zone.
 */
TimestampTz
la_partition_series_moment(Oid key_type, char *bound)
{
	Timestamp	time = read_time(key_type, bound);

	if (has_zone(key_type))
		return time;
	return DatumGetTimestampTz(DirectFunctionCall1(timestamp_timestamptz,
												   TimestampGetDatum(time)));
}

/*
 * The value of such a key at this moment, in this time zone.
 */
char *
la_partition_series_at_moment(Oid key_type, TimestampTz moment)
{
	Datum		value = TimestampTzGetDatum(moment);

	if (!has_zone(key_type))
		value = DirectFunctionCall1(timestamptz_timestamp, value);
	return time_text(key_type, DatumGetTimestamp(value));
}
