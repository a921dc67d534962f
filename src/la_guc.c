/*-------------------------------------------------------------------------
 *
 * la_guc.c
 *	  settings of pg_lookahead
 *
 * Behaviour settings are PGC_USERSET within hard bounds: none of them can
 * change a result, only which I/O produces it.  pg_lookahead.disable is the
 * administrator's: it takes effect in every session at the next reload and
 * no session can override it.
 *
 * The test settings exist only in a library built with LA_TEST=1, and only a
 * superuser may change them.  They force the look-ahead into states that a
 * small table would never reach; `make lint` proves that the released
 * library does not contain them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "utils/guc.h"

#include "la_guc.h"

bool		la_enabled = true;
bool		la_disable = false;
int			la_index_build_extend_size = LA_INDEX_BUILD_EXTEND_SIZE;
int			la_prefetch_distance = 0;
int			la_gap_limit = -1;
int			la_bulk_read_size = -1;
char	   *la_device_profile = NULL;

static bool enable_bitmap_prefetch = true;
static bool enable_index_build = true;
static bool enable_index_prefetch = true;
static bool enable_seq_prefetch = true;

static void define_switches(void);
static void define_amounts(void);
static void define_device_profile(void);
static bool check_device_profile(char **newval, void **extra, GucSource source);

#ifdef LA_TEST
int			la_test_ring_size = 0;
int			la_test_start_after = -1;
int			la_test_depth = 0;
int			la_test_stop_seed = 0;
int			la_test_trial_pages = 0;
bool		la_test_fail_self_check = false;
bool		la_test_fail_sort_keys = false;
bool		la_test_fail_worker_table = false;
char	   *la_test_counter_file = NULL;

static void define_test_settings(void);
static void define_test_failures(void);
#endif

/*
 * Defines every setting and reserves the prefix, so that a misspelt
 * pg_lookahead.* is an error.
 */
void
la_guc_define(void)
{
	define_switches();
	define_amounts();
	define_device_profile();
#ifdef LA_TEST
	define_test_settings();
	define_test_failures();
#endif

	MarkGUCPrefixReserved("pg_lookahead");
}

/*
 * What is done at all.
 */
static void
define_switches(void)
{
	DefineCustomBoolVariable("pg_lookahead.disable",
							 "Disables pg_lookahead in the whole cluster.",
							 "Overrides the settings of every session as soon as the configuration is reloaded.",
							 &la_disable,
							 false,
							 PGC_SIGHUP,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("pg_lookahead.enable_bitmap_prefetch",
							 "Enables asking for pages ahead, in ranges, by bitmap heap scans.",
							 "effective_io_concurrency does not disable it.",
							 &enable_bitmap_prefetch,
							 true,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("pg_lookahead.enable_index_build",
							 "Enables building btree indexes by sorting without comparisons.",
							 NULL,
							 &enable_index_build,
							 true,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("pg_lookahead.enable_index_prefetch",
							 "Enables prefetching of table pages by index scans.",
							 NULL,
							 &enable_index_prefetch,
							 true,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("pg_lookahead.enable_seq_prefetch",
							 "Enables asking for pages ahead, in large requests, by sequential and TID range scans.",
							 NULL,
							 &enable_seq_prefetch,
							 true,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("pg_lookahead.enabled",
							 "Enables pg_lookahead.",
							 "When off, statements run exactly as without the library.",
							 &la_enabled,
							 true,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);
}

/*
 * How much of it.
 */
static void
define_amounts(void)
{
	DefineCustomIntVariable("pg_lookahead.index_build_extend_size",
							"Sets the size by which the file of an index being built grows at once.",
							"0 writes page by page, as PostgreSQL does.",
							&la_index_build_extend_size,
							LA_INDEX_BUILD_EXTEND_SIZE,
							0, LA_INDEX_BUILD_EXTEND_SIZE_MAX,
							PGC_USERSET,
							GUC_UNIT_BLOCKS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("pg_lookahead.bulk_read_size",
							"Sets the size of the requests by which sequential and TID range scans ask ahead.",
							"-1 chooses it automatically; 0 leaves these scans to PostgreSQL.",
							&la_bulk_read_size,
							-1,
							-1, LA_BULK_READ_SIZE_MAX,
							PGC_USERSET,
							GUC_UNIT_BLOCKS | GUC_EXPLAIN,
							NULL, NULL, NULL);

	DefineCustomIntVariable("pg_lookahead.gap_limit",
							"Sets the longest gap between wanted pages that one request may include.",
							"-1 chooses it automatically; 0 asks for wanted pages only.",
							&la_gap_limit,
							-1,
							-1, LA_GAP_LIMIT_MAX,
							PGC_USERSET,
							GUC_UNIT_BLOCKS | GUC_EXPLAIN,
							NULL, NULL, NULL);

	DefineCustomIntVariable("pg_lookahead.prefetch_distance",
							"Sets the number of read requests that a scan keeps in flight.",
							"0 chooses it automatically.",
							&la_prefetch_distance,
							0,
							0, LA_PREFETCH_DISTANCE_MAX,
							PGC_USERSET,
							GUC_EXPLAIN,
							NULL, NULL, NULL);
}

/*
 * Where it is written what the devices can do.  The path tells of the
 * machine's layout, so it is hidden as core hides those of its files.
 */
static void
define_device_profile(void)
{
	DefineCustomStringVariable("pg_lookahead.device_profile",
							   "Sets the file with the measurements of this machine's devices.",
							   "An empty string uses none.",
							   &la_device_profile,
							   "",
							   PGC_SIGHUP,
							   GUC_SUPERUSER_ONLY,
							   check_device_profile, NULL, NULL);
}

/*
 * Check hook.  Whether the file is any good is not seen before it is needed:
 * it may be written after the setting.
 */
static bool
check_device_profile(char **newval, void **extra, GucSource source)
{
	if (**newval == '\0' || is_absolute_path(*newval))
		return true;
	GUC_check_errdetail("\"%s\" is not an absolute path.", *newval);
	GUC_check_errhint("Name a file outside of the data directory, as \"lookahead probe --profile\" writes it.");
	return false;
}

/*
 * May a scan, or an index build, that starts now be ours?
 */
bool
la_feature_enabled(LaFeature feature)
{
	bool		enabled = false;

	switch (feature)
	{
		case LA_FEATURE_INDEX_SCAN:
			enabled = enable_index_prefetch;
			break;
		case LA_FEATURE_BITMAP_SCAN:
			enabled = enable_bitmap_prefetch;
			break;
		case LA_FEATURE_SEQ_SCAN:
		case LA_FEATURE_TID_RANGE_SCAN:
			enabled = enable_seq_prefetch;
			break;
		case LA_FEATURE_INDEX_BUILD:
			enabled = enable_index_build;
			break;
	}
	return enabled && la_enabled && !la_disable;
}

#ifdef LA_TEST
/*
 * Settings that only a test build has.
 */
static void
define_test_settings(void)
{
	DefineCustomStringVariable("pg_lookahead.test_counter_file",
							   "Sets the file to which a backend appends its counters at exit.",
							   "An empty string writes none.",
							   &la_test_counter_file,
							   "",
							   PGC_SUSET,
							   GUC_NOT_IN_SAMPLE,
							   NULL, NULL, NULL);

	DefineCustomIntVariable("pg_lookahead.test_depth",
							"Sets the number of index entries to read ahead at once.",
							"0 leaves it to the read stream.",
							&la_test_depth,
							0,
							0, LA_RING_SIZE_MAX,
							PGC_SUSET,
							GUC_NOT_IN_SAMPLE,
							NULL, NULL, NULL);

	DefineCustomIntVariable("pg_lookahead.test_ring_size",
							"Sets the capacity of the ring of index entries.",
							"Rounded up to a power of two; 0 uses the default.",
							&la_test_ring_size,
							0,
							0, LA_RING_SIZE_MAX,
							PGC_SUSET,
							GUC_NOT_IN_SAMPLE,
							NULL, NULL, NULL);

	DefineCustomIntVariable("pg_lookahead.test_start_after",
							"Sets the number of index entries that a scan takes through core before it prefetches.",
							"-1 uses the default.",
							&la_test_start_after,
							-1,
							-1, 1000,
							PGC_SUSET,
							GUC_NOT_IN_SAMPLE,
							NULL, NULL, NULL);

	DefineCustomIntVariable("pg_lookahead.test_stop_seed",
							"Sets the seed of random stops of the look-ahead.",
							"0 never stops at random.",
							&la_test_stop_seed,
							0,
							0, INT_MAX,
							PGC_SUSET,
							GUC_NOT_IN_SAMPLE,
							NULL, NULL, NULL);

	DefineCustomIntVariable("pg_lookahead.test_trial_pages",
							"Sets the number of pages of each phase of a trial, which any bitmap then has.",
							"0 uses the default.",
							&la_test_trial_pages,
							0,
							0, INT_MAX,
							PGC_SUSET,
							GUC_NOT_IN_SAMPLE,
							NULL, NULL, NULL);
}

/*
 * Settings of a test build that make rare failures happen.
 */
static void
define_test_failures(void)
{
	DefineCustomBoolVariable("pg_lookahead.test_fail_self_check",
							 "Makes the check of private structures fail.",
							 NULL,
							 &la_test_fail_self_check,
							 false,
							 PGC_SUSET,
							 GUC_NOT_IN_SAMPLE,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("pg_lookahead.test_fail_sort_keys",
							 "Makes sort keys of the C library wrong.",
							 NULL,
							 &la_test_fail_sort_keys,
							 false,
							 PGC_SUSET,
							 GUC_NOT_IN_SAMPLE,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("pg_lookahead.test_fail_worker_table",
							 "Makes it fail to share counters with parallel workers.",
							 NULL,
							 &la_test_fail_worker_table,
							 false,
							 PGC_SUSET,
							 GUC_NOT_IN_SAMPLE,
							 NULL, NULL, NULL);
}
#endif
