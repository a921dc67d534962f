/*-------------------------------------------------------------------------
 *
 * la_seq_scan.h
 *	  sequential and TID range scans that ask for their pages ahead
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_SEQ_SCAN_H
#define LA_SEQ_SCAN_H

#include "attach/la_methods.h"

extern const LaFeatureMethods la_seq_scan_methods;
extern const LaFeatureMethods la_tid_range_scan_methods;

#endif							/* LA_SEQ_SCAN_H */
