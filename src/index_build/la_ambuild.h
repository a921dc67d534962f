/*-------------------------------------------------------------------------
 *
 * la_ambuild.h
 *	  puts our build function in the place of core's
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_AMBUILD_H
#define LA_AMBUILD_H

#include "attach/la_methods.h"

extern const LaFeatureMethods la_index_build_methods;

#endif							/* LA_AMBUILD_H */
