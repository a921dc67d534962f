/*-------------------------------------------------------------------------
 *
 * la_tid_entry.h
 *	  an index entry that was read ahead
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_TID_ENTRY_H
#define LA_TID_ENTRY_H

#include "storage/buf.h"
#include "storage/itemptr.h"

/* How a read stream comes to the page of an entry. */
typedef enum LaRoute
{
	LA_ROUTE_STREAM,
	LA_ROUTE_REPEATED,
	LA_ROUTE_DIRECT,
} LaRoute;

typedef struct LaTidEntry
{
	ItemPointerData tid;
	uint16		item;			/* btree: in BTScanPosData.items */
	OffsetNumber offset;		/* btree: of the index tuple on its leaf */
	uint8		leaf;			/* btree: slot in LaLeafQueue.leaves */
	uint8		route:2;		/* LaRoute, once routed */
	bool		recheck:1;		/* the AM's xs_recheck */
	Buffer		seen_in;		/* shared buffer that had the page, unpinned */
} LaTidEntry;

StaticAssertDecl(sizeof(LaTidEntry) == 16, "a ring entry has 16 bytes");

#endif							/* LA_TID_ENTRY_H */
