/*-------------------------------------------------------------------------
 *
 * la_bitmap_scan.h
 *	  bitmap heap scans that ask for their pages ahead, in ranges
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BITMAP_SCAN_H
#define LA_BITMAP_SCAN_H

#include "attach/la_registry.h"

extern void la_bitmap_scan_attach(LaNode *node);

#endif							/* LA_BITMAP_SCAN_H */
