/*-------------------------------------------------------------------------
 *
 * la_index_trust.c
 *	  are the private structures that index scans rely on as expected?
 *
 * Looked at before each start of look-ahead, and once they were not, never relied
 * on again in this session (la_self_check.c).  la_index_peek.c looks at each leaf itself,
 * and remembers nothing.  Reads IndexScanDescData and
 * IndexFetchTableData of relscan.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "catalog/pg_am_d.h"
#include "utils/rel.h"

#include "index_scan/la_btree_leaf.h"
#include "index_scan/la_index_trust.h"
#include "la_self_check.h"

static LaSelfCheck self_check = {.subject = "index scans"};

static bool layout_as_expected(IndexScanDesc scan,
							   IndexFetchTableData *heap_fetch,
							   bool has_entry);

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
 * becomes its reason.  has_entry says that core has returned an entry since the
 * scan (re)started.
 */
bool
la_index_trust_check(IndexScanDesc scan, IndexFetchTableData *heap_fetch,
					 bool has_entry, LaReason *reason)
{
	return la_self_check(&self_check,
						 layout_as_expected(scan, heap_fetch, has_entry),
						 reason);
}

/*
 * Do the private structures look as the headers say?  Compares what they hold
 * with what core just returned.  Before the first entry there is nothing to
 * compare but the sizes.
 */
static bool
layout_as_expected(IndexScanDesc scan, IndexFetchTableData *heap_fetch,
				   bool has_entry)
{
	if (heap_fetch->rel != scan->heapRelation)
		return false;
	return scan->indexRelation->rd_rel->relam != BTREE_AM_OID ||
		la_btree_leaf_as_expected(scan, has_entry);
}
