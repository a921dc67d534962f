/*-------------------------------------------------------------------------
 *
 * la_join_feature.c
 *	  what nested loops are to the rest of the library: name, counters, setting
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join/la_join_feature.h"
#include "la_counters.h"

static bool enable_join_prefetch = false;

#define JOIN_COUNTERS \
	(LA_COUNTERS(scans, advised) | LA_COUNTER(pauses) | LA_COUNTER(restarts) | \
	 LA_COUNTER(drawn))

const LaFeatureInfo la_nested_loop_feature = {
	.name = "nested_loop",
	.enabled = &enable_join_prefetch,
	.counters = JOIN_COUNTERS,
	.explained = JOIN_COUNTERS,
};

const LaSetting la_join_settings[] = {
	{
		.name = "pg_lookahead.enable_join_prefetch",
		.summary = "Enables prefetching of the inner side's pages for many outer rows at once by nested loops.",
		.flag = &enable_join_prefetch,
		.context = PGC_USERSET,
		.flags = GUC_EXPLAIN,
	},
	{0}
};
