/*-------------------------------------------------------------------------
 *
 * la_feature.c
 *	  what pg_lookahead does
 *
 * Features are made known at load (la_methods.c), so that everybody can ask
 * what one is without knowing its room.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "la_compat.h"
#include "la_feature.h"
#include "la_guc.h"

static const LaFeatureInfo *infos[LA_FEATURE_COUNT];

/*
 * At load: what a feature tells of itself.
 */
void
la_feature_declare(LaFeature feature, const LaFeatureInfo *info)
{
	infos[feature] = info;
}

/*
 * What a feature tells of itself.
 */
const LaFeatureInfo *
la_feature_info(LaFeature feature)
{
	return infos[feature];
}

/*
 * Has it been read in this major release what the feature takes from core?
 */
bool
la_feature_ported(LaFeature feature)
{
	return (LA_PORTED_FEATURES & (1 << feature)) != 0;
}

/*
 * May a scan, an index build or an insert that starts now be ours?
 */
bool
la_feature_enabled(LaFeature feature)
{
	return *infos[feature]->enabled && la_enabled && !la_disable &&
		la_feature_ported(feature);
}
