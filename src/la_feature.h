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
	LA_FEATURE_INDEX_BUILD,
	LA_FEATURE_BULK_INSERT,
	LA_FEATURE_NESTED_LOOP,
	LA_FEATURE_SUBPLAN,
	LA_FEATURE_LATE_START,
} LaFeature;

#define LA_FEATURE_COUNT (LA_FEATURE_LATE_START + 1)

/*
 * What a feature tells of itself, in a file of its own room.
 */
typedef struct LaFeatureInfo
{
	const char *name;			/* in pg_stat_lookahead */
	const bool *enabled;		/* its switch */
	uint64		counters;		/* what it counts, as LA_COUNTER()s; the other
								 * columns of the view are null */
	uint64		explained;		/* those of them that EXPLAIN shows */
} LaFeatureInfo;

extern void la_feature_declare(LaFeature feature, const LaFeatureInfo *info);
extern const LaFeatureInfo *la_feature_info(LaFeature feature);
extern bool la_feature_ported(LaFeature feature);
extern bool la_feature_enabled(LaFeature feature);

#endif							/* LA_FEATURE_H */
