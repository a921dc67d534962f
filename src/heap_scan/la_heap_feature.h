/*-------------------------------------------------------------------------
 *
 * la_heap_feature.h
 *	  what scans of a table without an index are to the rest of the library
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_HEAP_FEATURE_H
#define LA_HEAP_FEATURE_H

#include "attach/la_methods.h"
#include "la_feature.h"
#include "la_guc.h"

/* Upper bound of pg_lookahead.bulk_read_size, in blocks: 64 MB. */
#define LA_BULK_READ_SIZE_MAX ((64 * 1024 * 1024) / BLCKSZ)

extern const LaFeatureInfo la_bitmap_scan_feature;
extern const LaFeatureInfo la_seq_scan_feature;
extern const LaSetting la_heap_settings[];

extern int	la_bulk_read_size;

extern const LaFeatureMethods la_bitmap_scan_methods;

extern const LaFeatureMethods la_seq_scan_methods;

#endif							/* LA_HEAP_FEATURE_H */
