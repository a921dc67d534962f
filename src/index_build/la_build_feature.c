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

/* Default and largest pg_lookahead.index_build_extend_size: 4 and 64 MB. */
#define EXTEND_SIZE ((4 * 1024 * 1024) / BLCKSZ)
#define EXTEND_SIZE_MAX ((64 * 1024 * 1024) / BLCKSZ)

int			la_index_build_extend_size = EXTEND_SIZE;

static bool enable_index_build = true;

const LaSetting la_build_settings[] = {
	{
		.name = "pg_lookahead.enable_index_build",
		.summary = "Enables building btree indexes by sorting without comparisons.",
		.flag = &enable_index_build,
		.context = PGC_USERSET,
		.flags = GUC_EXPLAIN,
	},
	{
		.name = "pg_lookahead.index_build_extend_size",
		.summary = "Sets the size by which the file of an index being built grows at once.",
		.detail = "0 writes page by page, as PostgreSQL does.",
		.number = &la_index_build_extend_size,
		.least = 0,
		.most = EXTEND_SIZE_MAX,
		.context = PGC_USERSET,
		.flags = GUC_UNIT_BLOCKS,
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
