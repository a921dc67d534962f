/*-------------------------------------------------------------------------
 *
 * la_seq_scan.h
 *	  sequential and TID range scans that ask for their pages ahead
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_SEQ_SCAN_H
#define LA_SEQ_SCAN_H

#include "attach/la_registry.h"

extern void la_seq_scan_attach(LaNode *node);

#endif							/* LA_SEQ_SCAN_H */
