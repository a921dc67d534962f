/*-------------------------------------------------------------------------
 *
 * la_bitmap_scan.h
 *	  bitmap heap scans that ask for their pages ahead, in ranges
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BITMAP_SCAN_H
#define LA_BITMAP_SCAN_H

#include "attach/la_methods.h"

extern const LaFeatureMethods la_bitmap_scan_methods;

#endif							/* LA_BITMAP_SCAN_H */
