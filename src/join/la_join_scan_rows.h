/*-------------------------------------------------------------------------
 *
 * la_join_scan_rows.h
 *	  the rows behind that of a scan, on the same page, and the pages that their subplans want
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_SCAN_ROWS_H
#define LA_JOIN_SCAN_ROWS_H

#include "attach/la_registry.h"

typedef struct LaJoinScanRows LaJoinScanRows;

extern LaJoinScanRows *la_join_scan_rows_create(ScanState *scan, LaNode *node);
extern bool la_join_scan_rows_wake(LaJoinScanRows *rows);
extern bool la_join_scan_rows_is_awake(const LaJoinScanRows *rows);
extern bool la_join_scan_rows_advance(LaJoinScanRows *rows);
extern void la_join_scan_rows_end(LaJoinScanRows *rows);

#endif							/* LA_JOIN_SCAN_ROWS_H */
