/*-------------------------------------------------------------------------
 *
 * la_index_feature.c
 *	  what index scans are to the rest of the library: name, counters, settings
 *
 * The settings under LA_TEST force look-ahead into states that small tables do not
 * reach.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "index_scan/la_index_feature.h"
#include "la_counters.h"

static bool enable_index_prefetch = true;

#ifdef LA_TEST
int			la_test_depth = 0;
int			la_test_ring_size = 0;
int			la_test_stop_seed = 0;
#endif

const LaFeatureInfo la_index_scan_feature = {
	.name = "index_scan",
	.enabled = &enable_index_prefetch,
	.counters = LA_SCAN_COUNTERS,
	.explained = LA_SCAN_COUNTERS,
};

const LaSetting la_index_settings[] = {
	{
		.name = "pg_lookahead.enable_index_prefetch",
		.summary = "Enables prefetching of table pages by index scans.",
		.flag = &enable_index_prefetch,
		.context = PGC_USERSET,
		.flags = GUC_EXPLAIN,
	},
#ifdef LA_TEST
	{
		.name = "pg_lookahead.test_depth",
		.summary = "Sets the number of index entries to read ahead at once.",
		.detail = "0 leaves it to the control of the distance.",
		LA_TEST_NUMBER(&la_test_depth, 0, LA_RING_SIZE),
	},
	{
		.name = "pg_lookahead.test_ring_size",
		.summary = "Sets the capacity of the ring of index entries.",
		.detail = "Rounded up to a power of two, two at least; 0 uses the default.",
		LA_TEST_NUMBER(&la_test_ring_size, 0, 256 * LA_RING_SIZE),
	},
	{
		.name = "pg_lookahead.test_stop_seed",
		.summary = "Sets the seed of random stops of the look-ahead.",
		.detail = "0 never stops at random.",
		LA_TEST_NUMBER(&la_test_stop_seed, 0, INT_MAX),
	},
#endif
	{0}
};
