/*-------------------------------------------------------------------------
 *
 * la_insert_feature.h
 *	  what inserts in batches are to the rest of the library
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_FEATURE_H
#define LA_INSERT_FEATURE_H

#include "attach/la_methods.h"
#include "la_feature.h"
#include "la_guc.h"

extern const LaFeatureMethods la_bulk_insert_methods;

/* Upper bound of pg_lookahead.bulk_extend_size, in blocks: 64 MB. */
#define LA_BULK_EXTEND_SIZE_MAX ((64 * 1024 * 1024) / BLCKSZ)

extern const LaFeatureInfo la_bulk_insert_feature;
extern const LaSetting la_insert_settings[];

extern int	la_bulk_extend_size;

extern int	la_insert_single_rows(void);
extern uint64 la_insert_threshold(void);

#ifdef LA_TEST
extern int	la_test_insert_threshold;
extern int	la_test_insert_hand_back;
#endif

#endif							/* LA_INSERT_FEATURE_H */
