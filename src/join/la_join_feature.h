/*-------------------------------------------------------------------------
 *
 * la_join_feature.h
 *	  what joins and plans of expressions are to the rest of the library
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_FEATURE_H
#define LA_JOIN_FEATURE_H

#include "attach/la_methods.h"
#include "la_feature.h"
#include "la_guc.h"

extern const LaFeatureInfo la_nested_loop_feature;
extern const LaFeatureInfo la_subplan_feature;
extern const LaSetting la_join_settings[];

extern const LaFeatureMethods la_nested_loop_methods;
extern const LaFeatureMethods la_subplan_methods;

extern LaVerdict la_join_classify(PlanState *planstate, const LaPlace *place);

#endif							/* LA_JOIN_FEATURE_H */
