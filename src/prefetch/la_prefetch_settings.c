/*-------------------------------------------------------------------------
 *
 * la_prefetch_settings.c
 *	  settings that index scans and bitmap scans share
 *
 * Those of sequential scans are in la_heap_feature.c; the test settings are for all.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "prefetch/la_prefetch_settings.h"

/* Upper bound of pg_lookahead.gap_limit, in blocks. */
#define GAP_LIMIT_MAX 256

/* Upper bound of pg_lookahead.prefetch_distance, in read requests. */
#define PREFETCH_DISTANCE_MAX 1000

int			la_gap_limit = -1;
int			la_prefetch_distance = 0;

#ifdef LA_TEST
int			la_test_start_after = -1;
int			la_test_trial_pages = 0;
int			la_test_trial_gains = -1;
#endif

const LaSetting la_prefetch_settings[] = {
	{
		.name = "pg_lookahead.gap_limit",
		.summary = "Sets the longest gap between wanted pages that one request may include.",
		.detail = "-1 chooses it automatically; 0 asks for wanted pages only.",
		.number = &la_gap_limit,
		.least = -1,
		.most = GAP_LIMIT_MAX,
		.context = PGC_USERSET,
		.flags = GUC_UNIT_BLOCKS | GUC_EXPLAIN,
	},
	{
		.name = "pg_lookahead.prefetch_distance",
		.summary = "Sets the number of read requests that a scan keeps in flight.",
		.detail = "0 chooses it automatically.",
		.number = &la_prefetch_distance,
		.least = 0,
		.most = PREFETCH_DISTANCE_MAX,
		.context = PGC_USERSET,
		.flags = GUC_EXPLAIN,
	},
#ifdef LA_TEST
	{
		.name = "pg_lookahead.test_start_after",
		.summary = "Sets the number of index entries that a scan takes through core before it prefetches.",
		.detail = "-1 uses the default.",
		LA_TEST_NUMBER(&la_test_start_after, -1, 1000),
	},
	{
		.name = "pg_lookahead.test_trial_pages",
		.summary = "Sets the number of pages of each phase of a trial, which any bitmap and any join then has.",
		.detail = "0 uses the default.",
		LA_TEST_NUMBER(&la_test_trial_pages, 0, INT_MAX),
	},
	{
		.name = "pg_lookahead.test_trial_gains",
		.summary = "Sets whether a trial finds that asking gains: 0 no, 1 yes.",
		.detail = "-1 compares the times.",
		LA_TEST_NUMBER(&la_test_trial_gains, -1, 1),
	},
#endif
	{0}
};
