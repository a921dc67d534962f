/*-------------------------------------------------------------------------
 *
 * la_index_reason.c
 *	  why an index scan is left to core, or in which way it looks ahead
 *
 * Look-ahead drops the pin on an index page before the table page has been
 * read, so an index entry can be recycled meanwhile.  That is safe with an
 * MVCC snapshot only: it cannot see whatever row took the place (see
 * src/backend/access/nbtree/README, "Making concurrent TID recycling safe").
 *
 * Whether private structures are as expected is looked at before each start of
 * look-ahead, and once they were not, never relied on again in this session
 * (la_self_check.c).  la_index_peek.c looks at each leaf itself, and remembers nothing.
 *
 * Reads IndexScanState and IndexOnlyScanState of execnodes.h, and IndexScanDescData and
 * IndexFetchTableData of relscan.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/relscan.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "index_scan/la_btree_leaf.h"
#include "index_scan/la_index_reason.h"
#include "la_self_check.h"
#include "prefetch/la_request.h"

static LaSelfCheck self_check = {.subject = "index scans"};

/*
 * The access method of an index that is not open, since its query is only explained.  Core looks
 * nothing up then, so planners may be shown indexes that do not exist, to see whether these
 * would be taken (HypoPG): InvalidOid for such a one.
 */
static Oid
am_of_closed(Oid indexid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(indexid));
	Oid			access_method;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	access_method = ((Form_pg_class) GETSTRUCT(tuple))->relam;
	ReleaseSysCache(tuple);
	return access_method;
}

/*
 * The access method of the index of an index scan or index-only scan.
 */
static Oid
index_am(PlanState *planstate)
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
	return index != NULL ? index->rd_rel->relam : am_of_closed(indexid);
}

/*
 * Why this scan must be left to core, as far as is known before it runs.  The
 * index AM's position runs ahead of the row we return, so a scan cannot be marked
 * and restored.  The flags are those of the whole query: BACKWARD says that a
 * cursor may turn round, which some children of the plan would never see; those
 * are given up too.
 */
static LaReason
index_scan_reason(PlanState *planstate, const LaPlace *place)
{
	IndexScanState *node;
	Relation	table;
	Relation	index;
	Oid			access_method;

	if (!la_request_possible())
		return LA_REASON_DIRECT_IO;
	if (planstate == place->marked)
		return LA_REASON_MARK_RESTORE;
	if (IsA(planstate, IndexOnlyScanState))
		return LA_REASON_INDEX_ONLY;

	node = castNode(IndexScanState, planstate);
	if (((IndexScan *) planstate->plan)->indexorderby != NIL)
		return LA_REASON_ORDER_BY_OPERATOR;
	if (place->eflags & EXEC_FLAG_BACKWARD)
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
	access_method = index_am(planstate);

	/*
	 * Others may expect that a row is fetched before the next entry is asked
	 * for.
	 */
	if ((access_method != BTREE_AM_OID && access_method != HASH_AM_OID &&
		 access_method != GIST_AM_OID && access_method != SPGIST_AM_OID) ||
		(access_method == BTREE_AM_OID &&
		 index != NULL && index->rd_indam->amgettuple != btgettuple))
		return LA_REASON_INDEX_AM;
	if (!la_index_trusted())
		return LA_REASON_SELF_CHECK;
	return LA_REASON_NONE;
}

/*
 * Can a scan that has to be left to core for this reason have advice?
 */
static bool
may_peek(PlanState *planstate, LaReason reason)
{
	Relation	table = ((ScanState *) planstate)->ss_currentRelation;

	if (reason != LA_REASON_INDEX_ONLY && reason != LA_REASON_SCROLL &&
		reason != LA_REASON_MARK_RESTORE)
		return false;
	return la_index_trusted() &&
		table->rd_tableam == GetHeapamTableAmRoutine() &&
		!RELATION_IS_OTHER_TEMP(table) &&
		index_am(planstate) == BTREE_AM_OID;
}

/*
 * A scan that must not have its index entries taken away ahead of time may have
 * advice.
 */
LaVerdict
la_index_classify(PlanState *planstate, const LaPlace *place)
{
	LaVerdict	verdict;

	verdict.reason = index_scan_reason(planstate, place);
	verdict.way = LA_INDEX_RING;
	if (may_peek(planstate, verdict.reason))
	{
		verdict.reason = LA_REASON_NONE;
		verdict.way = LA_INDEX_PEEK;
	}
	return verdict;
}

/*
 * May index scans of this session look ahead?
 */
bool
la_index_trusted(void)
{
	return !self_check.failed;
}

/*
 * A scan is about to look ahead: are its structures as expected?  If not, that
 * becomes its reason.  Compares what they hold with what core just returned;
 * has_entry says that core has returned an entry since the scan (re)started: before
 * there is nothing to compare but the sizes.
 */
bool
la_index_trust_check(IndexScanDesc scan, IndexFetchTableData *heap_fetch,
					 bool has_entry, LaReason *reason)
{
	bool		expected = heap_fetch->rel == scan->heapRelation &&
		(scan->indexRelation->rd_rel->relam != BTREE_AM_OID ||
		 la_btree_leaf_as_expected(scan, has_entry));

	return la_self_check(&self_check, expected, reason);
}
