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

typedef struct LaTidEntry
{
	ItemPointerData tid;
	uint16		item;			/* btree: in BTScanPosData.items */
	OffsetNumber offset;		/* btree: of the index tuple on its leaf */
	uint8		leaf;			/* btree: slot in LaLeafQueue.leaves */
	bool		recheck;		/* the AM's xs_recheck */
	Buffer		seen_in;		/* shared buffer that had the page, unpinned */
} LaTidEntry;

StaticAssertDecl(sizeof(LaTidEntry) == 16, "a ring entry has 16 bytes");

#endif							/* LA_TID_ENTRY_H */
