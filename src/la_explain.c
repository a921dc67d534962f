/*-------------------------------------------------------------------------
 *
 * la_explain.c
 *	  EXPLAIN (LOOKAHEAD): what was done under each node, or why not
 *
 * Nothing is printed unless the option is given, so the output of a plain
 * EXPLAIN is core's to the byte.  Counters are those of the process that
 * runs EXPLAIN and of its parallel workers, summed up.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/defrem.h"
#include "commands/explain_format.h"
#include "commands/explain_state.h"

#include "attach/la_methods.h"
#include "attach/la_registry.h"
#include "attach/la_worker_counters.h"
#include "bulk_insert/source/la_insert_receiver.h"
#include "la_compat.h"
#include "la_counters.h"
#include "la_explain.h"
#include "la_feature.h"
#include "la_reason.h"

static int	extension_id;

/*
 * Parses EXPLAIN (LOOKAHEAD [boolean]).
 */
static void
lookahead_option(ExplainState *es, DefElem *opt, ParseState *pstate)
{
	bool	   *lookahead = GetExplainExtensionState(es, extension_id);

	if (lookahead == NULL)
	{
		lookahead = palloc_object(bool);
		SetExplainExtensionState(es, extension_id, lookahead);
	}
	*lookahead = defGetBoolean(opt);
}

/*
 * Registers the option.
 */
void
la_explain_init(void)
{
	extension_id = GetExplainExtensionId("pg_lookahead");
	la_compat_register_boolean_explain_option("lookahead", lookahead_option);
}

/*
 * Why a feature that is not enabled does nothing.
 */
static LaReason
off_reason(LaFeature feature)
{
	return la_feature_ported(feature) ? LA_REASON_DISABLED :
		LA_REASON_SERVER_VERSION;
}

static bool
is_wanted(ExplainState *es)
{
	const bool *lookahead = GetExplainExtensionState(es, extension_id);

	return lookahead != NULL && *lookahead;
}

/*
 * Have workers executed the node whose counters did not reach us?
 */
static bool
misses_workers(const LaNode *node)
{
	return node->below_gather && node->query->workers_uncounted;
}

static void
show_counter(const LaCounters *counters, int position, ExplainState *es)
{
	const LaCounter *counter = &la_counter_table[position];
	uint64		value = la_counter_value(counters, position);

	if (es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyUInteger(counter->label, NULL, value, es);
	else
		appendStringInfo(es->str, " %s=" UINT64_FORMAT, counter->name, value);
}

/*
 * The distance, over the pages that look-ahead knew: its mean, and the largest.
 */
static void
show_distance(const LaCounters *counters, ExplainState *es)
{
	const LaCounter *mean = &la_counter_table[LA_COUNTER_POSITION(distance_sum)];
	double		value = counters->prefetched == 0 ? 0.0 :
		(double) counters->distance_sum / (double) counters->prefetched;

	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfo(es->str, " %s=%.1f/" UINT64_FORMAT, mean->name, value,
						 counters->distance_max);
		return;
	}
	ExplainPropertyFloat(mean->label, NULL, value, 1, es);
	ExplainPropertyUInteger(la_counter_table[LA_COUNTER_POSITION(distance_max)].label,
							NULL, counters->distance_max, es);
}

/*
 * What means something for this kind of node, in any format.
 */
static void
show_node(const LaNode *node, ExplainState *es)
{
	const LaFeatureInfo *info = la_feature_info(node->feature);
	LaCounters	sum = node->counters;

	la_counters_add(&sum, &node->worker_counters);
	for (int i = 0; i < LA_COUNTER_COUNT; i++)
	{
		if (!la_counter_in(info->explained, i))
			continue;
		if (i == LA_COUNTER_POSITION(distance_sum))
			show_distance(&sum, es);
		else if (i != LA_COUNTER_POSITION(distance_max))
			show_counter(&sum, i, es);
	}
}

/*
 * "stock", "prefetch" or, when nothing ran, "eligible".
 */
static void
show_status(const LaNode *node, ExplainState *es)
{
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		ExplainIndentText(es);
		if (node->reason != LA_REASON_NONE)
			appendStringInfo(es->str, "Lookahead: stock (%s)\n",
							 la_reason_text(node->reason));
		else if (!es->analyze)
			appendStringInfoString(es->str, "Lookahead: eligible\n");
		else
		{
			appendStringInfoString(es->str, "Lookahead:");
			show_node(node, es);
			appendStringInfo(es->str, "%s\n",
							 misses_workers(node) ? " workers=uncounted" : "");
		}
		return;
	}
	ExplainOpenGroup("Lookahead", "Lookahead", true, es);
	ExplainPropertyText("Status", node->reason != LA_REASON_NONE ? "stock" :
						es->analyze ? "prefetch" : "eligible", es);
	if (node->reason != LA_REASON_NONE)
		ExplainPropertyText("Reason", la_reason_text(node->reason), es);
	else if (es->analyze)
	{
		show_node(node, es);
		if (misses_workers(node))
			ExplainPropertyText("Workers", "uncounted", es);
	}
	ExplainCloseGroup("Lookahead", "Lookahead", true, es);
}

/*
 * Prints what was done under a node, if that was asked for.
 */
void
la_explain_node(PlanState *planstate, ExplainState *es)
{
	/* What is shown for a node of a query that we were told to leave. */
	static LaNode unregistered = {0};
	LaNode	   *node;
	LaFeature	feature;

	if (!is_wanted(es) || !la_methods_feature(planstate, &feature))
		return;
	node = la_registry_find(planstate);
	if (node == NULL)
	{
		node = &unregistered;
		node->reason = off_reason(feature);
	}
	else
		la_worker_counters_collect(node->query);

	show_status(node, es);
}

/*
 * Prints what was done with the rows of a query that fills a new table, if that was asked
 * for.  They are inserted by no plan node, so this comes after all of them.
 */
void
la_explain_plan(const PlannedStmt *plan, const IntoClause *into,
				ExplainState *es)
{
	const LaInsertReport *report;
	LaNode		insert = {.feature = LA_FEATURE_BULK_INSERT};

	if (into == NULL || !is_wanted(es))
		return;
	report = la_insert_report(plan);
	if (!la_feature_enabled(LA_FEATURE_BULK_INSERT))
		insert.reason = off_reason(LA_FEATURE_BULK_INSERT);
	else if (report == NULL)
		insert.reason = LA_REASON_PREPARED;
	else
	{
		insert.reason = report->reason;
		insert.counters = report->counters;
	}

	show_status(&insert, es);
}
