/*-------------------------------------------------------------------------
 *
 * la_btree_kill.h
 *	  dead items of a leaf page of a btree, to be marked by core
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BTREE_KILL_H
#define LA_BTREE_KILL_H

#include "access/genam.h"
#include "access/xlogdefs.h"
#include "storage/block.h"
#include "storage/itemptr.h"

/* An index entry whose rows are dead to everybody. */
typedef struct LaDeadItem
{
	ItemPointerData tid;
	OffsetNumber offset;		/* of the index tuple on the leaf */
	uint16		item;			/* in BTScanPosData.items */
} LaDeadItem;

/* Those of one leaf, in the order in which they were found. */
typedef struct LaDeadItems
{
	LaDeadItem *items;			/* NULL until there is one */
	int			count;
	int			capacity;
	MemoryContext context;
} LaDeadItems;

extern void la_btree_kill_add(LaDeadItems *dead, ItemPointerData tid,
							  OffsetNumber offset, uint16 item);
extern void la_btree_kill_take_over(LaDeadItems *dead, IndexScanDesc scan);
extern void la_btree_kill_hand_over(LaDeadItems *dead, IndexScanDesc scan);
extern void la_btree_kill_flush(LaDeadItems *dead, IndexScanDesc scan,
								BlockNumber page, XLogRecPtr lsn);

#endif							/* LA_BTREE_KILL_H */
