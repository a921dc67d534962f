/*-------------------------------------------------------------------------
 *
 * la_feature.h
 *	  what pg_lookahead does: each feature has a switch, and a row in
 *	  pg_stat_lookahead
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_FEATURE_H
#define LA_FEATURE_H

typedef enum LaFeature
{
	LA_FEATURE_INDEX_SCAN,
	LA_FEATURE_BITMAP_SCAN,
	LA_FEATURE_SEQ_SCAN,
	LA_FEATURE_TID_RANGE_SCAN,
	LA_FEATURE_INDEX_BUILD,
} LaFeature;

#define LA_FEATURE_COUNT (LA_FEATURE_INDEX_BUILD + 1)

#endif							/* LA_FEATURE_H */
