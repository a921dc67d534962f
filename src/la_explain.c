/*-------------------------------------------------------------------------
 *
 * la_explain.c
 *	  EXPLAIN (LOOKAHEAD): what was done under each scan, or why not
 *
 * Nothing is printed unless the option is given, so the output of a plain
 * EXPLAIN is core's to the byte.  Counters are those of the process that
 * runs EXPLAIN and of its parallel workers, summed up.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/defrem.h"
#include "commands/explain.h"
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#include "executor/instrument.h"
#include "storage/bufmgr.h"

#include "attach/la_attach.h"
#include "attach/la_registry.h"
#include "la_explain.h"
#include "la_stats.h"
#include "statistics/la_worker_counters.h"

typedef struct LaExplainOptions
{
	bool		lookahead;
} LaExplainOptions;

static int	extension_id;
static explain_per_node_hook_type next_explain_per_node = NULL;

static void lookahead_option(ExplainState *es, DefElem *opt,
							 ParseState *pstate);
static void explain_per_node(PlanState *planstate, List *ancestors,
							 const char *relationship, const char *plan_name,
							 ExplainState *es);
static const char *node_status(const LaNode *node, const ExplainState *es);
static LaScanCounters summed_counters(const LaNode *node);
static bool misses_workers(const LaNode *node);
static void explain_text(const LaNode *node, ExplainState *es);
static void print_text(const LaNode *node, ExplainState *es);
static void print_count(ExplainState *es, const char *name, uint64 count);
static void explain_properties(const LaNode *node, ExplainState *es);
static void print_properties(const LaNode *node, ExplainState *es);
static double mean_distance(const LaScanCounters *counters);
static bool knows_wait(const LaNode *node);
static double waited_ms(const LaNode *node);

/*
 * Registers the option and installs the hook.
 */
void
la_explain_init(void)
{
	extension_id = GetExplainExtensionId("pg_lookahead");
	RegisterExtensionExplainOption("lookahead", lookahead_option);
	next_explain_per_node = explain_per_node_hook;
	explain_per_node_hook = explain_per_node;
}

/*
 * Parses EXPLAIN (LOOKAHEAD [boolean]).
 */
static void
lookahead_option(ExplainState *es, DefElem *opt, ParseState *pstate)
{
	LaExplainOptions *options = GetExplainExtensionState(es, extension_id);

	if (options == NULL)
	{
		options = palloc0_object(LaExplainOptions);
		SetExplainExtensionState(es, extension_id, options);
	}
	options->lookahead = defGetBoolean(opt);
}

/*
 * explain_per_node_hook.
 */
static void
explain_per_node(PlanState *planstate, List *ancestors,
				 const char *relationship, const char *plan_name,
				 ExplainState *es)
{
	/* What is shown for a scan of a query that we were told to leave. */
	static LaNode disabled = {.reason = LA_REASON_DISABLED};
	LaExplainOptions *options;
	LaNode	   *node;
	LaFeature	feature;

	if (next_explain_per_node)
		next_explain_per_node(planstate, ancestors, relationship, plan_name,
							  es);

	options = GetExplainExtensionState(es, extension_id);
	if (options == NULL || !options->lookahead)
		return;
	if (!la_attach_feature(planstate, &feature))
		return;
	node = la_registry_find(planstate);
	if (node == NULL || !node->classified)
		node = &disabled;
	else
		la_worker_counters_collect(node->query);

	if (es->format == EXPLAIN_FORMAT_TEXT)
		explain_text(node, es);
	else
		explain_properties(node, es);
}

/*
 * "stock", "prefetch" or, when nothing ran, "eligible".
 */
static const char *
node_status(const LaNode *node, const ExplainState *es)
{
	if (node->reason != LA_REASON_NONE)
		return "stock";
	return es->analyze ? "prefetch" : "eligible";
}

/*
 * The counters of all processes that executed the node.
 */
static LaScanCounters
summed_counters(const LaNode *node)
{
	LaScanCounters sum = node->counters;

	la_scan_counters_add(&sum, &node->worker_counters);
	return sum;
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
explain_text(const LaNode *node, ExplainState *es)
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
		print_text(node, es);
		appendStringInfo(es->str, "%s\n",
						 misses_workers(node) ? " workers=uncounted" : "");
	}
}

/*
 * The counters that mean something for this kind of scan.
 */
static void
print_text(const LaNode *node, ExplainState *es)
{
	LaScanCounters sum = summed_counters(node);
	const LaScanCounters *c = &sum;
	bool		index_scan = node->feature == LA_FEATURE_INDEX_SCAN;
	bool		knows_pages = index_scan || node->feature == LA_FEATURE_BITMAP_SCAN;

	print_count(es, "scans", c->scans);
	if (knows_pages)
		print_count(es, "prefetched", c->prefetched);
	print_count(es, "requests", c->requests);
	print_count(es, "advised", c->advised);
	if (knows_pages)
		print_count(es, "bridged", c->bridged);
	print_count(es, "pauses", c->pauses);
	if (index_scan)
	{
		print_count(es, "direct", c->direct);
		print_count(es, "repeated", c->repeated);
	}
	if (knows_pages)
		appendStringInfo(es->str, " distance=%.1f/" UINT64_FORMAT,
						 mean_distance(c), c->distance_max);
	if (index_scan)
	{
		print_count(es, "kills", c->killed);
		print_count(es, "restarts", c->restarts);
	}
	else
		appendStringInfo(es->str, " mode=%s", node->mode ? node->mode : "none");
	if (knows_wait(node))
		appendStringInfo(es->str, " waited=%.3fms", waited_ms(node));
}

static void
print_count(ExplainState *es, const char *name, uint64 count)
{
	appendStringInfo(es->str, " %s=" UINT64_FORMAT, name, count);
}

static void
explain_properties(const LaNode *node, ExplainState *es)
{
	ExplainOpenGroup("Lookahead", "Lookahead", true, es);
	ExplainPropertyText("Status", node_status(node, es), es);
	if (node->reason != LA_REASON_NONE)
		ExplainPropertyText("Reason", la_reason_text(node->reason), es);
	else if (es->analyze)
	{
		print_properties(node, es);
		if (misses_workers(node))
			ExplainPropertyText("Workers", "uncounted", es);
	}
	ExplainCloseGroup("Lookahead", "Lookahead", true, es);
}

/*
 * Like print_text().
 */
static void
print_properties(const LaNode *node, ExplainState *es)
{
	LaScanCounters sum = summed_counters(node);
	const LaScanCounters *c = &sum;
	bool		index_scan = node->feature == LA_FEATURE_INDEX_SCAN;
	bool		knows_pages = index_scan || node->feature == LA_FEATURE_BITMAP_SCAN;

	ExplainPropertyUInteger("Scans", NULL, c->scans, es);
	if (knows_pages)
		ExplainPropertyUInteger("Prefetched Blocks", NULL, c->prefetched, es);
	ExplainPropertyUInteger("Requests", NULL, c->requests, es);
	ExplainPropertyUInteger("Advised Blocks", NULL, c->advised, es);
	if (knows_pages)
		ExplainPropertyUInteger("Bridged Blocks", NULL, c->bridged, es);
	ExplainPropertyUInteger("Pauses", NULL, c->pauses, es);
	if (index_scan)
	{
		ExplainPropertyUInteger("Direct Blocks", NULL, c->direct, es);
		ExplainPropertyUInteger("Repeated Blocks", NULL, c->repeated, es);
	}
	if (knows_pages)
	{
		ExplainPropertyFloat("Mean Distance", NULL, mean_distance(c), 1, es);
		ExplainPropertyUInteger("Max Distance", NULL, c->distance_max, es);
	}
	if (index_scan)
	{
		ExplainPropertyUInteger("Killed Items", NULL, c->killed, es);
		ExplainPropertyUInteger("Restarts", NULL, c->restarts, es);
	}
	else
		ExplainPropertyText("Mode", node->mode ? node->mode : "none", es);
	if (knows_wait(node))
		ExplainPropertyFloat("Time Waited", "ms", waited_ms(node), 3, es);
}

/*
 * Mean number of requests ahead at the time a prefetched page was used.
 */
static double
mean_distance(const LaScanCounters *counters)
{
	if (counters->prefetched == 0)
		return 0.0;
	return (double) counters->distance_sum / (double) counters->prefetched;
}

/*
 * Is it known how long the node's reads took?  Counting those that took long
 * would need a clock, and core's is on at the user's wish only.
 */
static bool
knows_wait(const LaNode *node)
{
	const Instrumentation *instrument = node->planstate->instrument;

	return track_io_timing && instrument != NULL && instrument->need_bufusage;
}

/*
 * How long the node's processes were in reads: of synchronous ones the whole
 * time, of asynchronous ones what was left of it when their pages' turn came.
 * Workers' instrumentation is part of it, see
 * ExecParallelRetrieveInstrumentation().
 */
static double
waited_ms(const LaNode *node)
{
	const BufferUsage *usage = &node->planstate->instrument->bufusage;

	return INSTR_TIME_GET_MILLISEC(usage->shared_blk_read_time) +
		INSTR_TIME_GET_MILLISEC(usage->local_blk_read_time);
}
