/*-------------------------------------------------------------------------
 *
 * la_index_feature.h
 *	  what index scans are to the rest of the library
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INDEX_FEATURE_H
#define LA_INDEX_FEATURE_H

#include "attach/la_methods.h"
#include "la_feature.h"
#include "la_guc.h"

/*
 * Entries of a ring: a power of two, and arbitrary.  With 12 bytes each they take 24 kB;
 * what all rings of a statement may take is LA_STATEMENT_BYTES (attach/la_registry.h).
 */
#define LA_RING_SIZE 2048

extern const LaFeatureInfo la_index_scan_feature;
extern const LaSetting la_index_settings[];

#ifdef LA_TEST
extern int	la_test_depth;
extern int	la_test_ring_size;
extern int	la_test_stop_seed;
#endif

extern const LaFeatureMethods la_index_scan_methods;

#endif							/* LA_INDEX_FEATURE_H */
