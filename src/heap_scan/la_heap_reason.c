/*-------------------------------------------------------------------------
 *
 * la_heap_reason.c
 *	  which scans that read a table through a read stream are left to core
 *
 * Bitmap heap and sequential scans: before they run, when their table is
 * small, or when its scan descriptor does not look as expected.
 *
 * Their tuples are core's; ours is only the read stream in their scan
 * descriptor (HeapScanDescData.rs_read_stream), put there between two rows
 * when core's keeps nothing pinned.  heap_rescan() resets whatever stream is
 * there, and heap_endscan() ends it, so cleanup is core's too (relies on
 * heap_rescan() and heap_endscan() in heapam.c).
 *
 * Reads HeapScanDescData of heapam.h and TableScanDescData of relscan.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/relscan.h"
#include "executor/executor.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "heap_scan/la_heap_feature.h"
#include "heap_scan/la_heap_reason.h"
#include "la_self_check.h"
#include "prefetch/la_prefetch_settings.h"
#include "prefetch/la_request.h"

static LaSelfCheck self_check = {.subject = "table scans"};

/*
 * Why this scan must be left to core, as far as is known before it runs.
 * eflags are those of the whole query: BACKWARD says that a cursor may turn
 * round, for which only sequential scans have an order of their own.
 */
static LaReason
heap_scan_reason(PlanState *planstate, int eflags)
{
	Relation	table = ((ScanState *) planstate)->ss_currentRelation;
	bool		by_bitmap = IsA(planstate, BitmapHeapScanState);

	if (self_check.failed)
		return LA_REASON_SELF_CHECK;
	if (!by_bitmap && la_bulk_read_size == 0)
		return LA_REASON_BULK_READ_SIZE;
	if (!la_request_possible())
		return LA_REASON_DIRECT_IO;
	if (table->rd_tableam != GetHeapamTableAmRoutine())
		return LA_REASON_TABLE_AM;
	if (RELATION_IS_OTHER_TEMP(table))
		return LA_REASON_OTHER_TEMP;
	if (!by_bitmap && (eflags & EXEC_FLAG_BACKWARD))
		return LA_REASON_SCROLL;
	return LA_REASON_NONE;
}

LaVerdict
la_heap_scan_classify(PlanState *planstate, const LaPlace *place)
{
	LaVerdict	verdict = {0};

	verdict.reason = heap_scan_reason(planstate, place->eflags);
	return verdict;
}

/*
 * Has the table so few pages that its scan is not worth another stream?
 */
bool
la_heap_scan_is_small(const TableScanDescData *scan, BlockNumber least)
{
#ifdef LA_TEST
	if (la_test_start_after >= 0)
		least = 0;
#endif
	return ((const HeapScanDescData *) scan)->rs_nblocks <= least;
}

/*
 * Do the private structures look as the headers say?  When they do not, scans
 * of this session are left to core.
 */
bool
la_heap_scan_layout_as_expected(LaNode *node, TableScanDesc scan)
{
	HeapScanDesc heap = (HeapScanDesc) scan;
	bool		expected;

	if (self_check.failed)
		return false;
	expected = heap->rs_read_stream != NULL &&
		(!BufferIsValid(heap->rs_cbuf) ||
		 BufferGetBlockNumber(heap->rs_cbuf) == heap->rs_cblock) &&
		heap->rs_ctup.t_tableOid == RelationGetRelid(scan->rs_rd);
	return la_self_check(&self_check, expected, &node->reason);
}
