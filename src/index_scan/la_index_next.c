/*-------------------------------------------------------------------------
 *
 * la_index_next.c
 *	  execution of an index scan node: what core's nodeIndexscan.c does, with
 *	  our way to the next row
 *
 * The node keeps core's state, scan keys, quals, projection, rescan and
 * parallel support; only its ExecProcNode is ours.  index_next() mirrors
 * IndexNext() and la_index_scan_exec() mirrors ExecIndexScan(), both in
 * src/backend/executor/nodeIndexscan.c of PostgreSQL 18.
 *
 * Look-ahead drops the pin on an index page before the table page has been
 * read, so an index entry can be recycled meanwhile.  That is safe with an
 * MVCC snapshot only: it cannot see whatever row took the place (see
 * src/backend/access/nbtree/README, "Making concurrent TID recycling safe").
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/nbtree.h"
#include "catalog/pg_am_d.h"
#include "executor/execScan.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "attach/la_registry.h"
#include "index_scan/la_index_fetch.h"
#include "index_scan/la_index_next.h"

static bool is_known_am(Oid access_method);
static TupleTableSlot *index_next(IndexScanState *node);
static bool index_recheck(IndexScanState *node, TupleTableSlot *slot);
static IndexScanDesc begin_scan(IndexScanState *node);

/*
 * Why this scan must be left to core, as far as is known before it runs.
 * eflags are those of the whole query: BACKWARD says that a cursor may turn
 * round, which some children of the plan would never see; those are given up
 * too.
 */
LaReason
la_index_scan_reason(PlanState *planstate, int eflags)
{
	IndexScanState *node;
	Relation	table;
	Relation	index;
	Oid			access_method;

	if (IsA(planstate, IndexOnlyScanState))
		return LA_REASON_INDEX_ONLY;

	node = castNode(IndexScanState, planstate);
	if (((IndexScan *) planstate->plan)->indexorderby != NIL)
		return LA_REASON_ORDER_BY_OPERATOR;
	if (eflags & EXEC_FLAG_BACKWARD)
		return LA_REASON_SCROLL;

	table = node->ss.ss_currentRelation;
	if (table->rd_tableam != GetHeapamTableAmRoutine())
		return LA_REASON_TABLE_AM;
	if (RELATION_IS_OTHER_TEMP(table))
		return LA_REASON_OTHER_TEMP;
	if (planstate->state->es_snapshot == NULL ||
		planstate->state->es_snapshot->snapshot_type != SNAPSHOT_MVCC)
		return LA_REASON_SNAPSHOT;

	index = node->iss_RelationDesc;
	access_method = la_index_scan_am(planstate);
	if (!is_known_am(access_method) ||
		(access_method == BTREE_AM_OID &&
		 index != NULL && index->rd_indam->amgettuple != btgettuple))
		return LA_REASON_INDEX_AM;
	if (la_index_fetch_distrusted())
		return LA_REASON_SELF_CHECK;
	return LA_REASON_NONE;
}

/*
 * The access method of the index of an index scan or index-only scan.  The
 * index is not open in a query that is only explained.
 */
Oid
la_index_scan_am(PlanState *planstate)
{
	Relation	index;
	Oid			indexid;

	if (IsA(planstate, IndexOnlyScanState))
	{
		index = ((IndexOnlyScanState *) planstate)->ioss_RelationDesc;
		indexid = ((IndexOnlyScan *) planstate->plan)->indexid;
	}
	else
	{
		index = ((IndexScanState *) planstate)->iss_RelationDesc;
		indexid = ((IndexScan *) planstate->plan)->indexid;
	}
	return index != NULL ? index->rd_rel->relam : get_rel_relam(indexid);
}

/*
 * Is this an access method of core with ordered or plain scans?  Others may
 * expect that a row is fetched before the next entry is asked for.
 */
static bool
is_known_am(Oid access_method)
{
	return access_method == BTREE_AM_OID ||
		access_method == HASH_AM_OID ||
		access_method == GIST_AM_OID ||
		access_method == SPGIST_AM_OID;
}

/*
 * ExecProcNode of an attached index scan.
 */
TupleTableSlot *
la_index_scan_exec(PlanState *pstate)
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
 * Access method for ExecScan(): the next row in index order, or an empty slot.
 */
static TupleTableSlot *
index_next(IndexScanState *node)
{
	EState	   *estate = node->ss.ps.state;
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	IndexScanDesc scan = node->iss_ScanDesc;
	ScanDirection direction;
	LaIndexFetch *fetch;

	direction = ScanDirectionCombine(estate->es_direction,
									 ((IndexScan *) node->ss.ps.plan)->indexorderdir);
	if (scan == NULL)
		scan = begin_scan(node);

	fetch = la_index_fetch_of(scan);
	if (fetch == NULL)
		fetch = la_index_fetch_wrap(scan, la_registry_find(&node->ss.ps));

	while (la_index_fetch_next(fetch, direction, slot))
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
 * satisfy the index quals?  Mirrors IndexRecheck().
 */
static bool
index_recheck(IndexScanState *node, TupleTableSlot *slot)
{
	ExprContext *econtext = node->ss.ps.ps_ExprContext;

	econtext->ecxt_scantuple = slot;
	return ExecQualAndReset(node->indexqualorig, econtext);
}

/*
 * Begins the scan of a node that is not parallel, or is run serially.  In a
 * parallel scan, ExecIndexScanInitializeDSM() or ...InitializeWorker() has
 * begun it.
 */
static IndexScanDesc
begin_scan(IndexScanState *node)
{
	IndexScanDesc scan;

	scan = index_beginscan(node->ss.ss_currentRelation,
						   node->iss_RelationDesc,
						   node->ss.ps.state->es_snapshot,
						   &node->iss_Instrument,
						   node->iss_NumScanKeys,
						   node->iss_NumOrderByKeys);
	node->iss_ScanDesc = scan;

	/* Keys that are still to be computed come with the first rescan. */
	if (node->iss_NumRuntimeKeys == 0 || node->iss_RuntimeKeysReady)
		index_rescan(scan,
					 node->iss_ScanKeys, node->iss_NumScanKeys,
					 node->iss_OrderByKeys, node->iss_NumOrderByKeys);
	return scan;
}
