/*-------------------------------------------------------------------------
 *
 * la_heap_scan.c
 *	  what scans of a table without an index have in common
 *
 * Core executes these nodes.  Ours is only the read stream in their scan
 * descriptor (HeapScanDescData.rs_read_stream), put there before the first row
 * is asked for.  heap_rescan() resets whatever stream is there, and
 * heap_endscan() ends it, so cleanup is core's too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/relscan.h"
#include "executor/executor.h"
#include "utils/rel.h"

#include "heap_scan/la_heap_scan.h"
#include "la_guc.h"
#include "prefetch/la_transport.h"

/* Pages of a table whose scans are left alone: arbitrary. */
#define SMALL_TABLE 16

/* Has the check of private structures failed in this session? */
static bool distrusted = false;

static bool layout_as_expected(LaNode *node, TableScanDesc scan);

/*
 * Why this scan must be left to core, as far as is known before it runs.
 * eflags are those of the whole query: BACKWARD says that a cursor may turn
 * round, for which only the sequential scans have an order of their own.
 */
LaReason
la_heap_scan_reason(LaNode *node, int eflags)
{
	Relation	table = ((ScanState *) node->planstate)->ss_currentRelation;

	if (distrusted)
		return LA_REASON_SELF_CHECK;
	if (node->feature != LA_FEATURE_BITMAP_SCAN)
	{
		if (la_bulk_read_size == 0)
			return LA_REASON_BULK_READ_SIZE;
		if (la_transport_choose() != LA_TRANSPORT_ADVICE)
			return LA_REASON_DIRECT_IO;
	}
	if (table->rd_tableam != GetHeapamTableAmRoutine())
		return LA_REASON_TABLE_AM;
	if (RELATION_IS_OTHER_TEMP(table))
		return LA_REASON_OTHER_TEMP;
	if (node->feature != LA_FEATURE_BITMAP_SCAN &&
		(eflags & EXEC_FLAG_BACKWARD))
		return LA_REASON_SCROLL;
	return LA_REASON_NONE;
}

/*
 * Shall a scan that core has just begun have our stream?  Not of a small table,
 * which is not worth another stream.
 */
bool
la_heap_scan_may_swap(LaNode *node, TableScanDesc scan)
{
	BlockNumber least = SMALL_TABLE;

#ifdef LA_TEST
	if (la_test_start_after >= 0)
		least = la_test_start_after;
#endif
	if (((HeapScanDesc) scan)->rs_nblocks <= least)
	{
		node->mode = "small-table";
		return false;
	}
	node->mode = "cached";
	return layout_as_expected(node, scan);
}

/*
 * Do the private structures look as the headers say?  When they do not, scans
 * of this session are left to core.
 */
static bool
layout_as_expected(LaNode *node, TableScanDesc scan)
{
	HeapScanDesc heap = (HeapScanDesc) scan;
	bool		expected;

	expected = heap->rs_read_stream != NULL &&
		!heap->rs_inited && !BufferIsValid(heap->rs_cbuf) &&
		heap->rs_ctup.t_tableOid == RelationGetRelid(scan->rs_rd);
#ifdef LA_TEST
	if (la_test_fail_self_check)
		expected = false;
#endif
	if (!expected)
	{
		distrusted = true;
		node->reason = LA_REASON_SELF_CHECK;
		ereport(LOG,
				(errmsg("pg_lookahead leaves table scans of this session to core"),
				 errdetail("Private structures of this server are not as expected."),
				 errhint("Rebuild pg_lookahead against this server's header files.")));
	}
	return expected;
}
