/*-------------------------------------------------------------------------
 *
 * la_heap_reason.h
 *	  which scans that read a table through a read stream are left to core
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_HEAP_REASON_H
#define LA_HEAP_REASON_H

#include "access/heapam.h"

#include "attach/la_methods.h"
#include "attach/la_registry.h"

/* Pages of a table whose scans are left alone, if they need no trial: arbitrary. */
#define LA_SMALL_TABLE 16

extern LaVerdict la_heap_scan_classify(PlanState *planstate,
									   const LaPlace *place);
extern bool la_heap_scan_is_small(const TableScanDescData *scan,
								  BlockNumber least);
extern bool la_heap_scan_layout_as_expected(LaNode *node, TableScanDesc scan);

#endif							/* LA_HEAP_REASON_H */
