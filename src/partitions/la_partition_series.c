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
 * The last bound is computed first, because whatever is out of range is so
 * there, and before anything is created.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/int.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "partitions/la_partition_series.h"

static void begin_integers(LaPartitionSeries *series, const char *start,
						   const char *step);
static char *integer_bound(const LaPartitionSeries *series, int i);
static char *integer_label(const LaPartitionSeries *series, int i);
static void begin_numerics(LaPartitionSeries *series, const char *start,
						   const char *step);
static char *numeric_bound(const LaPartitionSeries *series, int i);
static char *number_label(char *number);
static char *numeric_label(const LaPartitionSeries *series, int i);
static void begin_times(LaPartitionSeries *series, const char *start,
						const char *step);
static Timestamp read_time(Oid type, const char *text);
static void check_step(Oid type, const Interval *step);
static LaTimePrecision precision_of(const LaPartitionSeries *series);
static Timestamp time_at(const LaPartitionSeries *series, int i);
static char *time_bound(const LaPartitionSeries *series, int i);
static char *uuid_bound(const LaPartitionSeries *series, int i);
static void split_time(const LaPartitionSeries *series, Timestamp time,
					   struct pg_tm *tm, fsec_t *fraction);
static char *time_label(const LaPartitionSeries *series, int i);
static char *list_bound(const LaPartitionSeries *series, int i);
static char *list_label(const LaPartitionSeries *series, int i);
static void refuse_step(void);

static const LaSeriesMethods integers = {integer_bound, integer_label};
static const LaSeriesMethods numerics = {numeric_bound, numeric_label};
static const LaSeriesMethods times = {time_bound, time_label};
static const LaSeriesMethods uuids = {uuid_bound, time_label};
static const LaSeriesMethods lists = {list_bound, list_label};

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
			begin_integers(series, start, step);
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
 * A list of these values; without values the numbers 0, 1, 2 up to the count.
 */
LaPartitionSeries *
la_partition_series_values(char **values, int count)
{
	LaPartitionSeries *series = palloc0_object(LaPartitionSeries);

	series->methods = &lists;
	series->count = count;
	series->is_list = true;
	series->values = values;
	return series;
}

static void
begin_integers(LaPartitionSeries *series, const char *start, const char *step)
{
	series->methods = &integers;
	series->integer_start = pg_strtoint64(start);
	series->integer_step = pg_strtoint64(step);
	if (series->integer_step <= 0)
		refuse_step();
}

static char *
integer_bound(const LaPartitionSeries *series, int i)
{
	int64		bound;

	if (pg_mul_s64_overflow(series->integer_step, i, &bound) ||
		pg_add_s64_overflow(series->integer_start, bound, &bound) ||
		(series->key_type == INT2OID && bound != (int16) bound) ||
		(series->key_type == INT4OID && bound != (int32) bound))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("a partition bound is out of range for type %s",
						format_type_be(series->key_type))));
	return psprintf(INT64_FORMAT, bound);
}

static char *
integer_label(const LaPartitionSeries *series, int i)
{
	return number_label(integer_bound(series, i));
}

static void
begin_numerics(LaPartitionSeries *series, const char *start, const char *step)
{
	Datum		zero = NumericGetDatum(int64_to_numeric(0));

	series->methods = &numerics;
	series->numeric_start = DirectFunctionCall3(numeric_in,
												CStringGetDatum(start),
												ObjectIdGetDatum(InvalidOid),
												Int32GetDatum(-1));
	series->numeric_step = DirectFunctionCall3(numeric_in,
											   CStringGetDatum(step),
											   ObjectIdGetDatum(InvalidOid),
											   Int32GetDatum(-1));
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

static char *
numeric_bound(const LaPartitionSeries *series, int i)
{
	Datum		number = NumericGetDatum(int64_to_numeric(i));
	Datum		distance = DirectFunctionCall2(numeric_mul, number,
											   series->numeric_step);

	return DatumGetCString(DirectFunctionCall1(numeric_out,
											   DirectFunctionCall2(numeric_add,
																   series->numeric_start,
																   distance)));
}

/*
 * A number as a part of a name that needs no quotes.
 */
static char *
number_label(char *number)
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

static char *
numeric_label(const LaPartitionSeries *series, int i)
{
	return number_label(numeric_bound(series, i));
}

static void
begin_times(LaPartitionSeries *series, const char *start, const char *step)
{
	series->methods = series->key_type == UUIDOID ? &uuids : &times;
	series->time_start = read_time(series->key_type, start);
	if (TIMESTAMP_NOT_FINITE(series->time_start))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the start of partitions must be finite")));
	series->time_step = *DatumGetIntervalP(DirectFunctionCall3(interval_in,
															   CStringGetDatum(step),
															   ObjectIdGetDatum(InvalidOid),
															   Int32GetDatum(-1)));
	check_step(series->key_type, &series->time_step);
	series->in_utc = series->time_step.time != 0 &&
		(series->key_type == TIMESTAMPTZOID || series->key_type == UUIDOID);
	series->precision = precision_of(series);
}

/*
 * The start, which for a key of uuid is a timestamp with time zone.
 */
static Timestamp
read_time(Oid type, const char *text)
{
	Datum		value = CStringGetDatum(text);

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
 * Whether bounds in such steps ascend is seen by core, bound by bound; here
 * are those steps that have no sense at all.
 */
static void
check_step(Oid type, const Interval *step)
{
	if (INTERVAL_NOT_FINITE(step) ||
		step->month < 0 || step->day < 0 || step->time < 0 ||
		(step->month == 0 && step->day == 0 && step->time == 0))
		refuse_step();
	if (type == DATEOID && step->time != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the step of partitions by date must be of whole days"),
				 errhint("Give it a unit, as in '7 days' or '1 month'.")));
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

static Timestamp
time_at(const LaPartitionSeries *series, int i)
{
	const Interval *step = &series->time_step;
	Interval	distance;
	bool		with_zone = series->key_type == TIMESTAMPTZOID ||
		series->key_type == UUIDOID;

	if (pg_mul_s32_overflow(step->month, i, &distance.month) ||
		pg_mul_s32_overflow(step->day, i, &distance.day) ||
		pg_mul_s64_overflow(step->time, i, &distance.time) ||
		INTERVAL_NOT_FINITE(&distance))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("interval out of range")));
	return DatumGetTimestamp(DirectFunctionCall2(with_zone
												 ? timestamptz_pl_interval
												 : timestamp_pl_interval,
												 TimestampGetDatum(series->time_start),
												 IntervalPGetDatum(&distance)));
}

static char *
time_bound(const LaPartitionSeries *series, int i)
{
	Datum		bound = TimestampGetDatum(time_at(series, i));

	if (series->key_type == DATEOID)
		bound = DirectFunctionCall1(timestamp_date, bound);
	return JsonEncodeDateTime(NULL, bound, series->key_type, NULL);
}

/*
 * The least uuid of the millisecond, whatever its version: RFC 9562 has the
 * milliseconds since 1970 in the first 48 bits of version 7.
 */
static char *
uuid_bound(const LaPartitionSeries *series, int i)
{
	int64		since_1970 = time_at(series, i) +
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
 * Year to second, in the time zone in which names are.
 */
static void
split_time(const LaPartitionSeries *series, Timestamp time, struct pg_tm *tm,
		   fsec_t *fraction)
{
	bool		local = !series->in_utc &&
		(series->key_type == TIMESTAMPTZOID || series->key_type == UUIDOID);
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
time_label(const LaPartitionSeries *series, int i)
{
	struct pg_tm tm;
	fsec_t		fraction;
	char		time[32] = "";
	bool		before_christ;

	split_time(series, time_at(series, i), &tm, &fraction);
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
list_bound(const LaPartitionSeries *series, int i)
{
	return series->values == NULL ? psprintf("%d", i) : series->values[i];
}

static char *
list_label(const LaPartitionSeries *series, int i)
{
	char	   *value = list_bound(series, i);

	return value == NULL ? "null" : value;
}

static void
refuse_step(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the step of partitions must be greater than zero")));
}
