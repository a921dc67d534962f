/*-------------------------------------------------------------------------
 *
 * la_index_reason.h
 *	  why an index scan is left to core, or in which way it looks ahead
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INDEX_REASON_H
#define LA_INDEX_REASON_H

#include "access/genam.h"
#include "access/relscan.h"

#include "attach/la_methods.h"
#include "la_reason.h"

/* Ways to execute an index scan: LaNode.way. */
enum
{
	LA_INDEX_RING,				/* take entries ahead of time, into a ring */
	LA_INDEX_PEEK,				/* core takes them, we look and give advice */
};

extern LaVerdict la_index_classify(PlanState *planstate, const LaPlace *place);

extern bool la_index_trusted(void);
extern bool la_index_trust_check(IndexScanDesc scan,
								 IndexFetchTableData *heap_fetch,
								 bool has_entry, LaReason *reason);

#endif							/* LA_INDEX_REASON_H */
