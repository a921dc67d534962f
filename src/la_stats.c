/*-------------------------------------------------------------------------
 *
 * la_stats.c
 *	  what is counted, and the functions that show it
 *
 * Counters are added up when a query ends, so the view never shows a query
 * that is still running, and a query that fails is counted like any other.
 *
 * Every process counts for itself.  Where the library came with the server
 * (shared_preload_libraries), the counts are also handed to core's cumulative
 * statistics (statistics/la_cluster_stats.c), and the view shows those;
 * elsewhere it shows the counts of its own session.
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
#include "utils/timestamp.h"

#include "la_guc.h"
#include "la_stats.h"
#include "statistics/la_cluster_stats.h"

#define STATS_COLUMNS 15

/* Of this process, and since when (0: since it started). */
static LaTotals session_totals;
static TimestampTz session_reset = 0;

/* Of its parallel workers. */
static LaScanCounters worker_totals[LA_FEATURE_COUNT];

static const char *const feature_names[] = {
	[LA_FEATURE_INDEX_SCAN] = "index_scan",
	[LA_FEATURE_BITMAP_SCAN] = "bitmap_scan",
	[LA_FEATURE_SEQ_SCAN] = "seq_scan",
	[LA_FEATURE_TID_RANGE_SCAN] = "tid_range_scan",
	[LA_FEATURE_INDEX_BUILD] = "index_build",
};

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
	[LA_REASON_COLLATION] = "collation",
	[LA_REASON_BULK_READ_SIZE] = "bulk_read_size is 0",
	[LA_REASON_DIRECT_IO] = "direct I/O",
	[LA_REASON_DISABLED] = "disabled",
};

StaticAssertDecl(lengthof(reason_texts) == LA_REASON_COUNT,
				 "every LaReason needs a text");

StaticAssertDecl(lengthof(feature_names) == LA_FEATURE_COUNT,
				 "every LaFeature needs a name");

PG_FUNCTION_INFO_V1(pg_lookahead_stats);
PG_FUNCTION_INFO_V1(pg_lookahead_stats_reset);

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
 * At load: cumulative statistics, where they are possible.
 */
void
la_stats_init(void)
{
	la_cluster_stats_init();
}

/*
 * Adds counters of scans to others.
 */
void
la_scan_counters_add(LaScanCounters *sum, const LaScanCounters *counters)
{
	sum->scans += counters->scans;
	sum->prefetched += counters->prefetched;
	sum->requests += counters->requests;
	sum->advised += counters->advised;
	sum->bridged += counters->bridged;
	sum->pauses += counters->pauses;
	sum->direct += counters->direct;
	sum->repeated += counters->repeated;
	sum->killed += counters->killed;
	sum->restarts += counters->restarts;
	sum->distance_sum += counters->distance_sum;
	sum->distance_max = Max(sum->distance_max, counters->distance_max);
}

/*
 * Adds totals to others.
 */
void
la_totals_add(LaTotals *sum, const LaTotals *totals)
{
	for (int f = 0; f < LA_FEATURE_COUNT; f++)
	{
		for (int i = 0; i < LA_REASON_COUNT; i++)
			sum->features[f].nodes[i] += totals->features[f].nodes[i];
		la_scan_counters_add(&sum->features[f].scans,
							 &totals->features[f].scans);
	}
}

/*
 * Counts a scan node of a query that starts, or an index that is built, and
 * why it was left to core if it was.  A worker's slice is part of a query that
 * its leader counts.
 */
void
la_stats_count(LaFeature feature, LaReason reason, bool in_slice)
{
	LaTotals   *pending;

#ifdef LA_TEST
	register_counter_file();
#endif
	if (in_slice)
		return;

	pending = la_cluster_stats_pending();
	session_totals.features[feature].nodes[reason]++;
	if (pending != NULL)
		pending->features[feature].nodes[reason]++;
}

/*
 * Adds the counters of a plan node whose query ends.  Must not throw.
 */
void
la_stats_add_scan(LaFeature feature, const LaScanCounters *counters)
{
	LaTotals   *pending = la_cluster_stats_pending();

	la_scan_counters_add(&session_totals.features[feature].scans, counters);
	if (pending != NULL)
		la_scan_counters_add(&pending->features[feature].scans, counters);
}

/*
 * Adds what the workers of a leader's plan node have counted.  The cluster
 * has that from the workers themselves.  Must not throw.
 */
void
la_stats_add_workers(LaFeature feature, const LaScanCounters *counters)
{
	la_scan_counters_add(&worker_totals[feature], counters);
}

/*
 * Nodes left to core by reason, as JSON text.
 */
static char *
fallbacks_json(const uint64 *nodes)
{
	StringInfoData json;
	const char *separator = "";

	initStringInfo(&json);
	appendStringInfoChar(&json, '{');
	for (int i = LA_REASON_NONE + 1; i < LA_REASON_COUNT; i++)
	{
		if (nodes[i] == 0)
			continue;
		appendStringInfo(&json, "%s\"%s\": " UINT64_FORMAT,
						 separator, reason_texts[i], nodes[i]);
		separator = ", ";
	}
	appendStringInfoChar(&json, '}');
	return json.data;
}

/*
 * Ours and those left to core.
 */
static uint64
all_nodes(const LaFeatureTotals *totals)
{
	uint64		sum = 0;

	for (int i = 0; i < LA_REASON_COUNT; i++)
		sum += totals->nodes[i];
	return sum;
}

/*
 * Fills in the columns between scope and fallbacks.
 */
static void
put_counters(const LaFeatureTotals *totals, Datum *values)
{
	const LaScanCounters *scans = &totals->scans;

	*values++ = Int64GetDatum((int64) all_nodes(totals));
	*values++ = Int64GetDatum((int64) scans->scans);
	*values++ = Int64GetDatum((int64) scans->prefetched);
	*values++ = Int64GetDatum((int64) scans->requests);
	*values++ = Int64GetDatum((int64) scans->advised);
	*values++ = Int64GetDatum((int64) scans->bridged);
	*values++ = Int64GetDatum((int64) scans->pauses);
	*values++ = Int64GetDatum((int64) scans->direct);
	*values++ = Int64GetDatum((int64) scans->repeated);
	*values++ = Int64GetDatum((int64) scans->killed);
	*values++ = Int64GetDatum((int64) scans->restarts);
}

/*
 * SQL function pg_lookahead_stats(): one row for each feature, for the
 * cluster or for this session.
 */
Datum
pg_lookahead_stats(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	TimestampTz reset = session_reset != 0 ? session_reset : MyStartTimestamp;
	const LaTotals *cluster = la_cluster_stats_fetch(&reset);
	LaTotals	totals = cluster ? *cluster : session_totals;
	Datum		values[STATS_COLUMNS];
	bool		nulls[STATS_COLUMNS] = {0};

	InitMaterializedSRF(fcinfo, 0);
	if (rsinfo->setDesc->natts != STATS_COLUMNS)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("function pg_lookahead_stats belongs to another version of pg_lookahead"),
				 errdetail("It returns %d columns, the loaded library has %d.",
						   rsinfo->setDesc->natts, STATS_COLUMNS),
				 errhint("Run ALTER EXTENSION pg_lookahead UPDATE, or start a new session.")));

	for (int f = 0; f < LA_FEATURE_COUNT; f++)
	{
		LaFeatureTotals *feature = &totals.features[f];
		bool		is_build = f == LA_FEATURE_INDEX_BUILD;

		if (!cluster)
			la_scan_counters_add(&feature->scans, &worker_totals[f]);
		values[0] = CStringGetTextDatum(feature_names[f]);
		values[1] = CStringGetTextDatum(cluster ? "cluster" : "backend");
		put_counters(feature, &values[2]);
		if (is_build)
			values[3] = Int64GetDatum((int64) feature->nodes[LA_REASON_NONE]);
		for (int i = 4; i < STATS_COLUMNS - 2; i++)
			nulls[i] = is_build;
		values[STATS_COLUMNS - 2] = CStringGetTextDatum(fallbacks_json(feature->nodes));
		values[STATS_COLUMNS - 1] = TimestampTzGetDatum(reset);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * SQL function pg_lookahead_stats_reset(): sets to zero what the view shows.
 * Who may call it is left to GRANT, as for core's pg_stat_reset_shared().
 */
Datum
pg_lookahead_stats_reset(PG_FUNCTION_ARGS)
{
	if (!la_cluster_stats_reset())
	{
		memset(&session_totals, 0, sizeof(session_totals));
		memset(worker_totals, 0, sizeof(worker_totals));
		session_reset = GetCurrentTimestamp();
	}
	PG_RETURN_VOID();
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
	const LaFeatureTotals *features = session_totals.features;
	const LaScanCounters *scans = &features[LA_FEATURE_INDEX_SCAN].scans;
	const LaScanCounters *bitmap = &features[LA_FEATURE_BITMAP_SCAN].scans;
	LaScanCounters table = features[LA_FEATURE_SEQ_SCAN].scans;
	char		line[512];
	int			length;
	int			fd;

	if (la_test_counter_file == NULL || la_test_counter_file[0] == '\0')
		return;

	la_scan_counters_add(&table, &features[LA_FEATURE_TID_RANGE_SCAN].scans);
	length = snprintf(line, sizeof(line),
					  "nodes=" UINT64_FORMAT " scans=" UINT64_FORMAT
					  " prefetched=" UINT64_FORMAT " requests=" UINT64_FORMAT
					  " advised=" UINT64_FORMAT
					  " direct=" UINT64_FORMAT
					  " repeated=" UINT64_FORMAT " kills=" UINT64_FORMAT
					  " restarts=" UINT64_FORMAT " bitmap_scans=" UINT64_FORMAT
					  " bitmap_pages=" UINT64_FORMAT
					  " seq_scans=" UINT64_FORMAT
					  " seq_requests=" UINT64_FORMAT
					  " builds=" UINT64_FORMAT "\n",
					  all_nodes(&features[LA_FEATURE_INDEX_SCAN]),
					  scans->scans, scans->prefetched, scans->requests,
					  scans->advised, scans->direct, scans->repeated,
					  scans->killed, scans->restarts,
					  bitmap->scans, bitmap->prefetched,
					  table.scans, table.requests,
					  features[LA_FEATURE_INDEX_BUILD].nodes[LA_REASON_NONE]);
	fd = open(la_test_counter_file, O_WRONLY | O_APPEND | O_CREAT, 0644);
	if (fd < 0 || write(fd, line, length) != length)
		elog(LOG, "could not write counters to \"%s\": %m",
			 la_test_counter_file);
	if (fd >= 0)
		close(fd);
}
#endif
