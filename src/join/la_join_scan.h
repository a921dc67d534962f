/*-------------------------------------------------------------------------
 *
 * la_join_scan.h
 *	  execution of a scan whose expressions call plans for each row
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_SCAN_H
#define LA_JOIN_SCAN_H

#include "attach/la_methods.h"

extern const LaFeatureMethods la_subplan_methods;

#endif							/* LA_JOIN_SCAN_H */
