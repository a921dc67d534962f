/*-------------------------------------------------------------------------
 *
 * la_stats.c
 *	  what this process has counted, and the SQL functions that show it
 *
 * Nodes are counted when a query starts and counters added up when it ends, so of a
 * query that is still running the view shows its nodes only; one that fails is
 * counted like any other.
 *
 * Every process counts for itself.  Where the library came with the server
 * (shared_preload_libraries), the counts are also handed to core's cumulative
 * statistics (la_cluster_stats.c), and the view shows those; elsewhere it
 * shows the counts of its own session.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "la_counters.h"
#include "la_guc.h"
#include "la_sql_function.h"
#include "statistics/la_cluster_stats.h"
#include "statistics/la_stats.h"

/* Of this process, and since when (0: since it started). */
static LaTotals session_totals;
static TimestampTz session_reset = 0;

/* Of its parallel workers. */
static LaCounters worker_totals[LA_FEATURE_COUNT];

/*
 * All nodes of a feature, ours and those left to core.
 */
static uint64
count_nodes(const LaFeatureTotals *totals)
{
	uint64		sum = 0;

	for (int i = 0; i < LA_REASON_COUNT; i++)
		sum += totals->nodes[i];
	return sum;
}

#ifdef LA_TEST
static void
append_counters(StringInfo line, LaFeature feature)
{
	const LaFeatureInfo *info = la_feature_info(feature);
	const LaFeatureTotals *totals = &session_totals.features[feature];

	appendStringInfo(line, "%s.nodes=" UINT64_FORMAT " ", info->name,
					 count_nodes(totals));
	for (int i = 0; i < LA_COUNTER_COUNT; i++)
	{
		if (la_counter_in(info->counters, i) &&
			la_counter_table[i].column != NULL)
			appendStringInfo(line, "%s.%s=" UINT64_FORMAT " ", info->name,
							 la_counter_table[i].name,
							 la_counter_value(&totals->counters, i));
	}
}

/*
 * before_shmem_exit callback: appends one line to
 * pg_lookahead.test_counter_file, with index_scan.scans=1 and the like.  A
 * single write() in append mode, so lines of backends that exit together do
 * not mix.
 */
static void
write_counter_file(int code, Datum arg)
{
	StringInfoData line;
	int			fd;

	if (la_test_counter_file == NULL || la_test_counter_file[0] == '\0')
		return;

	initStringInfo(&line);
	for (int f = 0; f < LA_FEATURE_COUNT; f++)
		append_counters(&line, f);
	appendStringInfoChar(&line, '\n');
	fd = open(la_test_counter_file, O_WRONLY | O_APPEND | O_CREAT, 0644);
	if (fd < 0 || write(fd, line.data, line.len) != line.len)
		elog(LOG, "could not write counters to \"%s\": %m",
			 la_test_counter_file);
	if (fd >= 0)
		close(fd);
}
#endif

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
	static bool registered = false;

	/* Not in _PG_init, which may run in the postmaster. */
	if (!registered)
		before_shmem_exit(write_counter_file, (Datum) 0);
	registered = true;
#endif

	if (in_slice)
		return;

	pending = la_cluster_stats_pending();
	session_totals.features[feature].nodes[reason]++;
	if (pending != NULL)
		pending->features[feature].nodes[reason]++;
}

/*
 * A node of ours becomes one that is left to core.  Where the first count has been handed on or
 * reset meanwhile, it stays.
 */
static void
move_node(LaFeatureTotals *totals, LaReason reason)
{
	if (totals->nodes[LA_REASON_NONE] == 0)
		return;
	totals->nodes[LA_REASON_NONE]--;
	totals->nodes[reason]++;
}

/*
 * A node that la_stats_count() has counted as ours is left to core after all.
 */
void
la_stats_recount(LaFeature feature, LaReason reason, bool in_slice)
{
	LaTotals   *pending;

	if (in_slice)
		return;
	pending = la_cluster_stats_pending();
	move_node(&session_totals.features[feature], reason);
	if (pending != NULL)
		move_node(&pending->features[feature], reason);
}

/*
 * Adds the counters of a plan node whose query ends, or of an index build.
 * Must not throw.
 */
void
la_stats_add(LaFeature feature, const LaCounters *counters)
{
	LaTotals   *pending = la_cluster_stats_pending();

	la_counters_add(&session_totals.features[feature].counters, counters);
	if (pending != NULL)
		la_counters_add(&pending->features[feature].counters, counters);
}

/*
 * Adds what the workers of a leader's plan node have counted.  The cluster
 * has that from the workers themselves.  Must not throw.
 */
void
la_stats_add_workers(LaFeature feature, const LaCounters *counters)
{
	la_counters_add(&worker_totals[feature], counters);
}

/*
 * What the view shows, and since when that counts.  Returns whether it is of the
 * whole cluster.
 */
static bool
fetch_totals(LaTotals *totals, TimestampTz *since)
{
	const LaTotals *cluster = la_cluster_stats_fetch(since);

	if (cluster != NULL)
	{
		*totals = *cluster;
		return true;
	}

	*totals = session_totals;
	for (int f = 0; f < LA_FEATURE_COUNT; f++)
		la_counters_add(&totals->features[f].counters, &worker_totals[f]);
	*since = session_reset != 0 ? session_reset : MyStartTimestamp;
	return false;
}

/* Columns of the view before the counters, behind them, and all. */
#define COLUMNS_BEFORE 3
#define COLUMNS_AFTER 2
#define COLUMNS (COLUMNS_BEFORE + LA_COUNTER_COLUMNS + COLUMNS_AFTER)

PG_FUNCTION_INFO_V1(pg_lookahead_stats);
PG_FUNCTION_INFO_V1(pg_lookahead_stats_reset);

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
						 separator, la_reason_text(i), nodes[i]);
		separator = ", ";
	}
	appendStringInfoChar(&json, '}');
	return json.data;
}

/*
 * SQL function pg_lookahead_stats(): one row for each feature, for the
 * cluster or for this session.
 */
Datum
pg_lookahead_stats(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	LaTotals	totals;
	TimestampTz since;
	bool		of_cluster = fetch_totals(&totals, &since);
	Datum		values[COLUMNS];
	bool		nulls[COLUMNS] = {0};
	int			last = COLUMNS_BEFORE + LA_COUNTER_COLUMNS;

	InitMaterializedSRF(fcinfo, 0);
	la_sql_function_check_row(fcinfo, rsinfo->setDesc, COLUMNS);

	for (int f = 0; f < LA_FEATURE_COUNT; f++)
	{
		const LaFeatureInfo *info = la_feature_info(f);
		const LaFeatureTotals *feature = &totals.features[f];

		values[0] = CStringGetTextDatum(info->name);
		values[1] = CStringGetTextDatum(of_cluster ? "cluster" : "backend");
		values[2] = Int64GetDatum((int64) count_nodes(feature));
		/* Null where a feature has no such counter. */
		for (int i = 0, column = COLUMNS_BEFORE; i < LA_COUNTER_COUNT; i++)
		{
			if (la_counter_table[i].column == NULL)
				continue;
			values[column] = Int64GetDatum((int64) la_counter_value(&feature->counters, i));
			nulls[column++] = !la_counter_in(info->counters, i);
		}
		values[last] = CStringGetTextDatum(fallbacks_json(feature->nodes));
		values[last + 1] = TimestampTzGetDatum(since);
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
	if (la_cluster_stats_reset())
		PG_RETURN_VOID();
	memset(&session_totals, 0, sizeof(session_totals));
	memset(worker_totals, 0, sizeof(worker_totals));
	session_reset = GetCurrentTimestamp();
	PG_RETURN_VOID();
}
