/*-------------------------------------------------------------------------
 *
 * la_stats.c
 *	  counters of this backend, and the functions that show them
 *
 * Counters are added up when a query ends, so the view never shows a query
 * that is still running, and a query that fails is counted like any other.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "funcapi.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/builtins.h"

#include "la_guc.h"
#include "la_stats.h"

#define STATS_COLUMNS 10

static uint64 nodes_seen = 0;
static uint64 fallbacks[LA_REASON_COUNT];
static LaScanCounters totals;
static uint64 builds_seen = 0;
static uint64 builds_left[LA_REASON_COUNT];

static const char *const reason_texts[] = {
	[LA_REASON_NONE] = "none",
	[LA_REASON_INDEX_ONLY] = "index-only scan",
	[LA_REASON_ORDER_BY_OPERATOR] = "ordering operator",
	[LA_REASON_INDEX_AM] = "index access method",
	[LA_REASON_TABLE_AM] = "table access method",
	[LA_REASON_OTHER_TEMP] = "temporary table of another session",
	[LA_REASON_SCROLL] = "scrollable cursor",
	[LA_REASON_MARK_RESTORE] = "mark and restore",
	[LA_REASON_SNAPSHOT] = "snapshot",
	[LA_REASON_OTHER_EXTENSION] = "other extension",
	[LA_REASON_SELF_CHECK] = "self-check",
	[LA_REASON_SYSTEM_CATALOG] = "system catalog",
	[LA_REASON_KEY_TYPE] = "key type",
	[LA_REASON_DISABLED] = "disabled",
};

StaticAssertDecl(lengthof(reason_texts) == LA_REASON_COUNT,
				 "every LaReason needs a text");

PG_FUNCTION_INFO_V1(pg_lookahead_stats);

#ifdef LA_TEST
static void register_counter_file(void);
static void write_counter_file(int code, Datum arg);
#endif

/*
 * The text of a reason, as EXPLAIN and pg_stat_lookahead show it.
 */
const char *
la_reason_text(LaReason reason)
{
	return reason_texts[reason];
}

/*
 * Counts a scan node of a query that starts, and why it was left to core if
 * it was.
 */
void
la_stats_count_node(LaReason reason)
{
	nodes_seen++;
	if (reason != LA_REASON_NONE)
		fallbacks[reason]++;
#ifdef LA_TEST
	register_counter_file();
#endif
}

/*
 * Counts an index that is built, and why it was left to core if it was.
 */
void
la_stats_count_build(LaReason reason)
{
	builds_seen++;
	builds_left[reason]++;
#ifdef LA_TEST
	register_counter_file();
#endif
}

/*
 * Adds the counters of a plan node whose query ends.
 */
void
la_stats_add_scan(const LaScanCounters *counters)
{
	totals.scans += counters->scans;
	totals.prefetched += counters->prefetched;
	totals.advised += counters->advised;
	totals.direct += counters->direct;
	totals.repeated += counters->repeated;
	totals.killed += counters->killed;
	totals.restarts += counters->restarts;
	totals.distance_sum += counters->distance_sum;
	totals.distance_max = Max(totals.distance_max, counters->distance_max);
}

/*
 * Fallbacks by reason, as JSON text.
 */
static char *
fallbacks_json(const uint64 *counts)
{
	StringInfoData json;
	const char *separator = "";

	initStringInfo(&json);
	appendStringInfoChar(&json, '{');
	for (int i = LA_REASON_NONE + 1; i < LA_REASON_COUNT; i++)
	{
		if (counts[i] == 0)
			continue;
		appendStringInfo(&json, "%s\"%s\": " UINT64_FORMAT,
						 separator, reason_texts[i], counts[i]);
		separator = ", ";
	}
	appendStringInfoChar(&json, '}');
	return json.data;
}

/*
 * SQL function pg_lookahead_stats(): one row for each feature, for this
 * backend since it started.
 */
Datum
pg_lookahead_stats(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum		values[STATS_COLUMNS];
	bool		nulls[STATS_COLUMNS] = {0};
	int			i = 0;

	InitMaterializedSRF(fcinfo, 0);
	if (rsinfo->setDesc->natts != STATS_COLUMNS)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("function pg_lookahead_stats belongs to another version of pg_lookahead"),
				 errdetail("It returns %d columns, the loaded library has %d.",
						   rsinfo->setDesc->natts, STATS_COLUMNS),
				 errhint("Run ALTER EXTENSION pg_lookahead UPDATE, or start a new session.")));

	values[i++] = CStringGetTextDatum("index_scan");
	values[i++] = Int64GetDatum((int64) nodes_seen);
	values[i++] = Int64GetDatum((int64) totals.scans);
	values[i++] = Int64GetDatum((int64) totals.prefetched);
	values[i++] = Int64GetDatum((int64) totals.advised);
	values[i++] = Int64GetDatum((int64) totals.direct);
	values[i++] = Int64GetDatum((int64) totals.repeated);
	values[i++] = Int64GetDatum((int64) totals.killed);
	values[i++] = Int64GetDatum((int64) totals.restarts);
	values[i++] = CStringGetTextDatum(fallbacks_json(fallbacks));
	Assert(i == STATS_COLUMNS);

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);

	/* index builds have none of the counters of a scan */
	values[0] = CStringGetTextDatum("index_build");
	values[1] = Int64GetDatum((int64) builds_seen);
	values[2] = Int64GetDatum((int64) builds_left[LA_REASON_NONE]);
	for (i = 3; i < STATS_COLUMNS - 1; i++)
		nulls[i] = true;
	values[i] = CStringGetTextDatum(fallbacks_json(builds_left));
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	return (Datum) 0;
}

#ifdef LA_TEST
/*
 * Arranges, once in a backend, that its counters are written at exit.  Not
 * done in _PG_init: under shared_preload_libraries that runs in the
 * postmaster.
 */
static void
register_counter_file(void)
{
	static bool registered = false;

	if (!registered)
	{
		registered = true;
		before_shmem_exit(write_counter_file, (Datum) 0);
	}
}

/*
 * before_shmem_exit callback: appends one line to
 * pg_lookahead.test_counter_file.  A single write() in append mode, so lines
 * of backends that exit together do not mix.
 */
static void
write_counter_file(int code, Datum arg)
{
	char		line[512];
	int			length;
	int			fd;

	if (la_test_counter_file == NULL || la_test_counter_file[0] == '\0')
		return;

	length = snprintf(line, sizeof(line),
					  "nodes=" UINT64_FORMAT " scans=" UINT64_FORMAT
					  " prefetched=" UINT64_FORMAT " advised=" UINT64_FORMAT
					  " direct=" UINT64_FORMAT
					  " repeated=" UINT64_FORMAT " kills=" UINT64_FORMAT
					  " restarts=" UINT64_FORMAT " builds=" UINT64_FORMAT "\n",
					  nodes_seen, totals.scans, totals.prefetched,
					  totals.advised, totals.direct, totals.repeated, totals.killed,
					  totals.restarts, builds_left[LA_REASON_NONE]);
	fd = open(la_test_counter_file, O_WRONLY | O_APPEND | O_CREAT, 0644);
	if (fd < 0 || write(fd, line, length) != length)
		elog(LOG, "could not write counters to \"%s\": %m",
			 la_test_counter_file);
	if (fd >= 0)
		close(fd);
}
#endif
