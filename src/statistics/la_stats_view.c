/*-------------------------------------------------------------------------
 *
 * la_stats_view.c
 *	  the SQL functions behind pg_stat_lookahead
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "la_counters.h"
#include "la_sql_function.h"
#include "statistics/la_stats.h"

/* Columns of the view before the counters, behind them, and at most. */
#define COLUMNS_BEFORE 3
#define COLUMNS_AFTER 2
#define MAX_COLUMNS (COLUMNS_BEFORE + LA_COUNTER_COUNT + COLUMNS_AFTER)

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
	bool		of_cluster = la_stats_fetch(&totals, &since);
	Datum		values[MAX_COLUMNS];
	bool		nulls[MAX_COLUMNS] = {0};
	int			last = COLUMNS_BEFORE + la_counter_columns();

	InitMaterializedSRF(fcinfo, 0);
	la_sql_function_check_row(fcinfo, rsinfo->setDesc, last + COLUMNS_AFTER);

	for (int f = 0; f < LA_FEATURE_COUNT; f++)
	{
		const LaFeatureInfo *info = la_feature_info(f);
		const LaFeatureTotals *feature = &totals.features[f];

		values[0] = CStringGetTextDatum(info->name);
		values[1] = CStringGetTextDatum(of_cluster ? "cluster" : "backend");
		values[2] = Int64GetDatum((int64) la_totals_nodes(feature));
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
	la_stats_reset();
	PG_RETURN_VOID();
}
