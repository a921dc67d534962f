/*-------------------------------------------------------------------------
 *
 * la_insert_feature.c
 *	  what inserts in batches are to the rest of the library: names, settings,
 *	  counters
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "bulk_insert/la_insert_feature.h"
#include "la_counters.h"

#define SINGLE_ROWS 32

/*
 * A statement that inserts fewer bytes leaves the table as it would be without us, on
 * the same pages: 4 MB.
 */
#define THRESHOLD (4 * 1024 * 1024)

int			la_bulk_extend_size = (4 * 1024 * 1024) / BLCKSZ;

static bool enable_bulk_insert = true;

#ifdef LA_TEST
static int	test_single_rows = -1;

int			la_test_insert_threshold = -1;
int			la_test_insert_hand_back = 0;
#endif

const LaSetting la_insert_settings[] = {
	{
		.name = "pg_lookahead.enable_bulk_insert",
		.summary = "Enables inserting rows in batches of a page.",
		.flag = &enable_bulk_insert,
		.context = PGC_USERSET,
		.flags = GUC_EXPLAIN,
	},
	{
		.name = "pg_lookahead.bulk_extend_size",
		.summary = "Sets how much a table grows by at once while many rows are inserted.",
		.detail = "0 leaves the growth of tables to PostgreSQL.",
		.number = &la_bulk_extend_size,
		.least = 0,
		.most = LA_BULK_EXTEND_SIZE_MAX,
		.context = PGC_USERSET,
		.flags = GUC_UNIT_BLOCKS | GUC_EXPLAIN,
	},
#ifdef LA_TEST
	{
		.name = "pg_lookahead.test_insert_hand_back",
		.summary = "Sets the number of the row at which an insert is handed back to PostgreSQL.",
		.detail = "0 hands none back.",
		LA_TEST_NUMBER(&la_test_insert_hand_back, 0, INT_MAX),
	},
	{
		.name = "pg_lookahead.test_insert_single_rows",
		.summary = "Sets the number of rows that are inserted one by one at first.",
		.detail = "-1 uses the default.",
		LA_TEST_NUMBER(&test_single_rows, -1, INT_MAX),
	},
	{
		.name = "pg_lookahead.test_insert_threshold",
		.summary = "Sets the number of pages after which a table is extended in bulk.",
		.detail = "-1 uses the default.",
		LA_TEST_NUMBER(&la_test_insert_threshold, -1, INT_MAX),
	},
#endif
	{0}
};

const LaFeatureInfo la_bulk_insert_feature = {
	.name = "bulk_insert",
	.enabled = &enable_bulk_insert,
	.counters = LA_COUNTER(scans) | LA_COUNTERS(rows, sorted),
	.explained = LA_COUNTERS(rows, sorted),
};

/*
 * How many rows are inserted one by one at first.
 */
int
la_insert_single_rows(void)
{
#ifdef LA_TEST
	if (test_single_rows >= 0)
		return test_single_rows;
#endif
	return SINGLE_ROWS;
}

/*
 * Bytes of rows that core puts into a table before pages of ours are.
 */
uint64
la_insert_threshold(void)
{
#ifdef LA_TEST
	if (la_test_insert_threshold >= 0)
		return (uint64) la_test_insert_threshold * BLCKSZ;
#endif
	return THRESHOLD;
}
