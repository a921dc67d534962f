/*-------------------------------------------------------------------------
 *
 * la_build_feature.c
 *	  what index builds are to the rest of the library: name, settings,
 *	  counters
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "index_build/keys/la_build_collation.h"
#include "index_build/la_build_feature.h"
#include "la_counters.h"

static bool enable_index_build = true;

const LaSetting la_build_settings[] = {
	{
		.name = "pg_lookahead.enable_index_build",
		.summary = "Enables building btree indexes by sorting without comparisons.",
		.flag = &enable_index_build,
		.context = PGC_USERSET,
		.flags = GUC_EXPLAIN,
	},
#ifdef LA_TEST
	{
		.name = "pg_lookahead.test_fail_sort_keys",
		.summary = "Makes sort keys of the C library wrong.",
		.flag = &la_test_fail_sort_keys,
		.context = PGC_SUSET,
		.flags = GUC_NOT_IN_SAMPLE,
	},
#endif
	{0}
};

const LaFeatureInfo la_index_build_feature = {
	.name = "index_build",
	.enabled = &enable_index_build,
	.counters = LA_COUNTER(scans),
};
