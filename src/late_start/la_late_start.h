/*-------------------------------------------------------------------------
 *
 * la_late_start.h
 *	  starts a query without most children of nodes that are pruned at run time
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_LATE_START_H
#define LA_LATE_START_H


#include "attach/la_methods.h"
#include "la_guc.h"

extern const LaFeatureMethods la_late_start_methods;

extern const LaSetting la_late_settings[];


#endif							/* LA_LATE_START_H */
