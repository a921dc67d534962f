/*-------------------------------------------------------------------------
 *
 * la_index_trust.h
 *	  are the private structures that index scans rely on as expected?
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INDEX_TRUST_H
#define LA_INDEX_TRUST_H

#include "access/genam.h"
#include "access/relscan.h"

#include "la_reason.h"

extern bool la_index_trusted(void);
extern bool la_index_trust_check(IndexScanDesc scan,
								 IndexFetchTableData *heap_fetch,
								 bool has_entry, LaReason *reason);

#endif							/* LA_INDEX_TRUST_H */
