/*-------------------------------------------------------------------------
 *
 * la_join_feature.c
 *	  what joins and plans of expressions are to the rest of the library: names, counters, setting
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join/la_join_feature.h"
#include "la_counters.h"

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
