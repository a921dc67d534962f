/*-------------------------------------------------------------------------
 *
 * la_join_feature.c
 *	  what joins and plans of expressions are to the rest of the library: names,
 *	  counters, setting, and what is known before they run
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join/la_join_feature.h"
#include "la_counters.h"
#include "prefetch/la_request.h"

static bool enable_join_prefetch = true;

#define SUBPLAN_COUNTERS \
	(LA_COUNTERS(scans, advised) | LA_COUNTER(pauses) | LA_COUNTER(restarts))
#define JOIN_COUNTERS (SUBPLAN_COUNTERS | LA_COUNTER(drawn))

const LaFeatureInfo la_nested_loop_feature = {
	.name = "nested_loop",
	.enabled = &enable_join_prefetch,
	.counters = JOIN_COUNTERS,
	.explained = JOIN_COUNTERS,
};

const LaFeatureInfo la_subplan_feature = {
	.name = "subplan",
	.enabled = &enable_join_prefetch,
	.counters = SUBPLAN_COUNTERS,
	.explained = SUBPLAN_COUNTERS,
};

const LaSetting la_join_settings[] = {
	{
		.name = "pg_lookahead.enable_join_prefetch",
		.summary = "Enables prefetching for many outer rows at once by nested loops and correlated subqueries.",
		.flag = &enable_join_prefetch,
		.context = PGC_USERSET,
		.flags = GUC_EXPLAIN,
	},
	{0}
};

/*
 * What is known of a node before it runs.  The rest is found out when it wakes: of a
 * loop it takes a walk over both sides (la_join_judge.c).
 */
LaVerdict
la_join_classify(PlanState *planstate, const LaPlace *place)
{
	LaVerdict	verdict = {LA_REASON_NONE, 0};

	if (!la_request_possible())
		verdict.reason = LA_REASON_DIRECT_IO;
	return verdict;
}
