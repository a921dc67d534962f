/*-------------------------------------------------------------------------
 *
 * la_build_feature.h
 *	  what index builds are to the rest of the library
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_FEATURE_H
#define LA_BUILD_FEATURE_H

#include "nodes/pathnodes.h"

#include "attach/la_methods.h"
#include "la_feature.h"
#include "la_guc.h"

extern const LaFeatureInfo la_index_build_feature;
extern const LaSetting la_build_settings[];

extern const LaFeatureMethods la_index_build_methods;
extern void la_ambuild_plan_relation(PlannerInfo *root, RelOptInfo *rel);

#endif							/* LA_BUILD_FEATURE_H */
