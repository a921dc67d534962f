/*-------------------------------------------------------------------------
 *
 * la_index_exec.c
 *	  execution of an index scan node: what core does, with our way to the next
 *	  row
 *
 * The node keeps core's state, scan keys, quals, projection, rescan and
 * parallel support; only its ExecProcNode is ours.  Index-only scans are begun
 * here and executed by core.
 *
 * Reads IndexScanState and IndexOnlyScanState of execnodes.h, and
 * IndexScanDescData of relscan.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "executor/execScan.h"
#include "executor/executor.h"
#include "miscadmin.h"

#include "attach/la_asleep.h"
#include "attach/la_core_exec.h"
#include "index_scan/la_index_feature.h"
#include "index_scan/la_index_fetch.h"
#include "index_scan/la_index_reason.h"
#include "la_compat.h"
#include "prefetch/la_wake.h"

/*
 * Puts the next visible row into the slot; false at the end of the scan.  While
 * the scan sleeps, this mirrors index_getnext_slot() in indexam.c, but for the look
 * at whether an entry had a page read: for each entry, because rows that are
 * dead or that a filter drops never leave the node.
 */
static bool
next_slot(IndexScanState *node, IndexScanDesc scan, ScanDirection direction,
		  TupleTableSlot *slot)
{
	LaIndexFetch *fetch = la_index_fetch_of(scan);

	if (la_wake_at_start() && fetch == NULL)
		fetch = la_index_fetch_wake(scan, &node->ss.ps);
	if (likely(fetch == NULL))
	{
		int64		reads = la_reads();

		while (scan->xs_heap_continue || index_getnext_tid(scan, direction) != NULL)
		{
			bool		found = index_fetch_heap(scan, slot);

			if (unlikely(la_asleep_missed(&node->ss.ps, reads)))
				fetch = la_index_fetch_wake(scan, &node->ss.ps);
			if (found)
				return true;
			if (fetch != NULL)
				return la_index_fetch_next(fetch, direction, slot);
			reads = la_reads();
		}
		return false;
	}
	return la_index_fetch_next(fetch, direction, slot);
}

/*
 * Begins the scan of a node that is not parallel, or is run serially.  A
 * parallel scan has been begun (relies on ExecIndexScanInitializeDSM() and
 * ExecIndexScanInitializeWorker() in nodeIndexscan.c).
 */
static IndexScanDesc
begin_index_scan(IndexScanState *node)
{
	IndexScanDesc scan;

	scan = la_compat_index_beginscan(node);
	node->iss_ScanDesc = scan;

	/* Keys that are still to be computed come with the first rescan. */
	if (node->iss_NumRuntimeKeys == 0 || node->iss_RuntimeKeysReady)
		index_rescan(scan,
					 node->iss_ScanKeys, node->iss_NumScanKeys,
					 node->iss_OrderByKeys, node->iss_NumOrderByKeys);
	return scan;
}

/*
 * Access method for ExecScan(): the next row in index order, or an empty slot.
 * Mirrors IndexNext() in nodeIndexscan.c.
 */
static TupleTableSlot *
index_next(IndexScanState *node)
{
	EState	   *estate = node->ss.ps.state;
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	IndexScanDesc scan = node->iss_ScanDesc;
	ScanDirection direction;

	direction = ScanDirectionCombine(estate->es_direction,
									 ((IndexScan *) node->ss.ps.plan)->indexorderdir);
	if (scan == NULL)
		scan = begin_index_scan(node);

	while (next_slot(node, scan, direction, slot))
	{
		CHECK_FOR_INTERRUPTS();

		if (scan->xs_recheck)
		{
			econtext->ecxt_scantuple = slot;
			if (!ExecQualAndReset(node->indexqualorig, econtext))
			{
				InstrCountFiltered2(node, 1);
				continue;
			}
		}
		return slot;
	}

	node->iss_ReachedEnd = true;
	return ExecClearTuple(slot);
}

/*
 * Recheck method for ExecScan(), for EvalPlanQual: does the row in the slot
 * satisfy the index quals?  Mirrors IndexRecheck() in nodeIndexscan.c.
 */
static bool
index_recheck(IndexScanState *node, TupleTableSlot *slot)
{
	ExprContext *econtext = node->ss.ps.ps_ExprContext;

	econtext->ecxt_scantuple = slot;
	return ExecQualAndReset(node->indexqualorig, econtext);
}

/*
 * ExecProcNode of an attached index scan.  Mirrors ExecIndexScan() in
 * nodeIndexscan.c.
 */
static TupleTableSlot *
index_scan_exec(PlanState *pstate)
{
	IndexScanState *node = castNode(IndexScanState, pstate);

	/* Runtime keys that are not set up yet: do it now. */
	if (node->iss_NumRuntimeKeys != 0 && !node->iss_RuntimeKeysReady)
		ExecReScan(pstate);

	return ExecScan(&node->ss,
					(ExecScanAccessMtd) index_next,
					(ExecScanRecheckMtd) index_recheck);
}

/*
 * ExecProcNode of an attached index-only scan until its first row, or its end:
 * begins it as core does, and wraps it.  Core's function does all the rest.
 */
static TupleTableSlot *
index_only_exec(PlanState *pstate)
{
	IndexOnlyScanState *node = castNode(IndexOnlyScanState, pstate);
	ExecProcNodeMtd core = *la_core_exec_of(pstate);
	IndexScanDesc scan = node->ioss_ScanDesc;

	/* Mirrors the first part of IndexOnlyNext() in nodeIndexonlyscan.c. */
	if (scan == NULL)
	{
		scan = la_compat_index_only_beginscan(node);
		node->ioss_ScanDesc = scan;
		scan->xs_want_itup = true;
		node->ioss_VMBuffer = InvalidBuffer;
		if (node->ioss_NumRuntimeKeys == 0 || node->ioss_RuntimeKeysReady)
			index_rescan(scan,
						 node->ioss_ScanKeys, node->ioss_NumScanKeys,
						 node->ioss_OrderByKeys, node->ioss_NumOrderByKeys);
	}
	if (la_index_fetch_of(scan) == NULL)
	{
		la_index_fetch_wrap(scan, pstate);
		if (la_wake_at_start())
			la_index_fetch_wake(scan, pstate);
	}
	la_core_exec_change(pstate, index_only_exec, core);
	return core(pstate);
}

const LaFeatureMethods la_index_scan_methods = {
	.info = &la_index_scan_feature,
	.nodes = {{T_IndexScanState, index_scan_exec}, {T_IndexOnlyScanState, index_only_exec}},
	.classify = la_index_classify,
};
