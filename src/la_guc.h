/*-------------------------------------------------------------------------
 *
 * la_guc.h
 *	  settings of pg_lookahead, and what they say taken together
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_GUC_H
#define LA_GUC_H

#include "la_feature.h"

/* Bounds of pg_lookahead.prefetch_distance, in read requests. */
#define LA_PREFETCH_DISTANCE_MAX 1000

/* Upper bound of pg_lookahead.gap_limit, in blocks. */
#define LA_GAP_LIMIT_MAX 256

/* Upper bound of pg_lookahead.bulk_read_size, in blocks: 64 MB. */
#define LA_BULK_READ_SIZE_MAX ((64 * 1024 * 1024) / BLCKSZ)

/* Default and largest pg_lookahead.index_build_extend_size: 4 and 64 MB. */
#define LA_INDEX_BUILD_EXTEND_SIZE ((4 * 1024 * 1024) / BLCKSZ)
#define LA_INDEX_BUILD_EXTEND_SIZE_MAX ((64 * 1024 * 1024) / BLCKSZ)

/*
 * Bounds of the TID ring, in entries (powers of two).  8192 entries of 16
 * bytes are 128 kB, well below the 256 kB that one scan may use.
 */
#define LA_RING_SIZE_MIN 2
#define LA_RING_SIZE_MAX 8192

extern bool la_enabled;
extern bool la_disable;
extern int	la_index_build_extend_size;
extern int	la_prefetch_distance;
extern int	la_gap_limit;
extern int	la_bulk_read_size;
extern char *la_device_profile;

#ifdef LA_TEST
extern int	la_test_ring_size;
extern int	la_test_start_after;
extern int	la_test_depth;
extern int	la_test_stop_seed;
extern int	la_test_trial_pages;
extern bool la_test_fail_self_check;
extern bool la_test_fail_sort_keys;
extern bool la_test_fail_worker_table;
extern char *la_test_counter_file;
#endif

extern void la_guc_define(void);
extern bool la_feature_enabled(LaFeature feature);

#endif							/* LA_GUC_H */
