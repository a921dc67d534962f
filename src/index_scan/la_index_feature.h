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
 * Bounds of the TID ring, in entries (powers of two).  8192 entries of 12
 * bytes are 96 kB; what all rings of a statement may use is said in la_ring_memory.c.
 */
#define LA_RING_SIZE_MIN 2
#define LA_RING_SIZE_MAX 8192

extern const LaFeatureInfo la_index_scan_feature;
extern const LaSetting la_index_settings[];
extern bool la_enable_index_prefetch;

#ifdef LA_TEST
extern int	la_test_depth;
extern int	la_test_ring_size;
extern int	la_test_stop_seed;
#endif

extern const LaFeatureMethods la_index_scan_methods;

#endif							/* LA_INDEX_FEATURE_H */
