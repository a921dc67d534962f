/*-------------------------------------------------------------------------
 *
 * la_late_feature.h
 *	  what late starts are to the rest of the library
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_LATE_FEATURE_H
#define LA_LATE_FEATURE_H

#include "attach/la_methods.h"

extern const LaFeatureMethods la_late_start_methods;

#endif							/* LA_LATE_FEATURE_H */
