/*-------------------------------------------------------------------------
 *
 * la_heap_feature.c
 *	  what scans of a table without an index are to the rest of the library:
 *	  names, settings, counters
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "heap_scan/la_heap_feature.h"
#include "la_counters.h"

int			la_bulk_read_size = -1;

static bool enable_bitmap_prefetch = true;
static bool enable_seq_prefetch = true;

const LaSetting la_heap_settings[] = {
	{
		.name = "pg_lookahead.enable_bitmap_prefetch",
		.summary = "Enables asking for pages ahead, in ranges, by bitmap heap scans.",
		.detail = "effective_io_concurrency does not disable it.",
		.flag = &enable_bitmap_prefetch,
		.context = PGC_USERSET,
		.flags = GUC_EXPLAIN,
	},
	{
		.name = "pg_lookahead.enable_seq_prefetch",
		.summary = "Enables asking for pages ahead, in large requests, by sequential scans.",
		.flag = &enable_seq_prefetch,
		.context = PGC_USERSET,
		.flags = GUC_EXPLAIN,
	},
	{
		.name = "pg_lookahead.bulk_read_size",
		.summary = "Sets the size of the requests by which sequential scans ask ahead.",
		.detail = "-1 chooses it automatically; 0 leaves these scans to PostgreSQL, as enable_seq_prefetch = off does.",
		.number = &la_bulk_read_size,
		.least = -1,
		.most = LA_BULK_READ_SIZE_MAX,
		.context = PGC_USERSET,
		.flags = GUC_UNIT_BLOCKS | GUC_EXPLAIN,
	},
	{0}
};

const LaFeatureInfo la_bitmap_scan_feature = {
	.name = "bitmap_scan",
	.enabled = &enable_bitmap_prefetch,
	.counters = LA_SCAN_COUNTERS,
	.explained = LA_COUNTERS(scans, pauses) |
	LA_COUNTERS(distance_sum, distance_max),
};

/* It knows which pages it will want, however far ahead. */
const LaFeatureInfo la_seq_scan_feature = {
	.name = "seq_scan",
	.enabled = &enable_seq_prefetch,
	.counters = LA_SCAN_COUNTERS,
	.explained = LA_COUNTER(scans) | LA_COUNTER(requests) | LA_COUNTER(advised) |
	LA_COUNTER(pauses),
};
