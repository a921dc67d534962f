/*-------------------------------------------------------------------------
 *
 * la_btree_kill.c
 *	  dead items of a leaf page of a btree, to be marked by core
 *
 * Core's scan marks an index entry LP_DEAD when it finds that all rows behind
 * it are dead to everybody: index_fetch_heap() sets kill_prior_tuple, and the
 * next btgettuple() notes the entry that it returned last.  With look-ahead
 * the entry returned last is not the one whose rows were examined, so the
 * flag is of no use; but losing these hints would let a queue table get
 * slower without bound.  So dead entries are collected here, with the leaf
 * they came from, and handed to core in one of two ways:
 *
 * - The index AM still stands on the leaf: they go into so->killedItems, and
 *   core marks them when it leaves the leaf or the scan ends.
 * - It has moved on: _bt_killitems() is called with so->currPos set, for the
 *   duration of the call, to the leaf as it was read.  That function looks
 *   at no more of it than the page number, the LSN and the killed items, and
 *   marks nothing if the page's LSN has changed since: the rule by which core
 *   itself stays clear of recycled TIDs (so->dropPin, PostgreSQL 18).
 *
 * Each leaf is flushed once, when its last entry has been consumed: with
 * checksums or wal_log_hints the first flush may write a full page image,
 * and the LSN it sets would make a second one give up.  When that is, is known
 * to la_leaf_queue.c.
 *
 * Reads BTScanOpaqueData, BTScanPosData and BTScanPosItem of nbtree.h, and
 * IndexScanDescData of relscan.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/relscan.h"
#include "utils/memutils.h"

#include "index_scan/la_btree_kill.h"

/* First size of the array of dead items: arbitrary; doubled as needed. */
#define DEAD_ITEMS_INITIAL 32

/*
 * Notes a dead item of the leaf.
 */
void
la_btree_kill_add(LaDeadItems *dead, ItemPointerData tid, OffsetNumber offset,
				  uint16 item)
{
	LaDeadItem *added;

	if (dead->items == NULL)
	{
		dead->capacity = DEAD_ITEMS_INITIAL;
		dead->items = MemoryContextAlloc(dead->context,
										 dead->capacity * sizeof(LaDeadItem));
	}
	else if (dead->count == dead->capacity)
	{
		dead->capacity *= 2;
		dead->items = repalloc_array(dead->items, LaDeadItem, dead->capacity);
	}
	added = &dead->items[dead->count++];
	added->tid = tid;
	added->offset = offset;
	added->item = item;
}

static void
add_position(LaDeadItems *dead, BTScanOpaque so, int position)
{
	BTScanPosItem *item = &so->currPos.items[position];

	la_btree_kill_add(dead, item->heapTid, item->indexOffset, position);
}

/*
 * Takes over what core has noted on the leaf on which it stands, so that the leaf
 * is flushed once.
 */
void
la_btree_kill_take_over(LaDeadItems *dead, IndexScanDesc scan)
{
	BTScanOpaque so = (BTScanOpaque) scan->opaque;

	for (int i = 0; i < so->numKilled; i++)
		add_position(dead, so, so->killedItems[i]);
	so->numKilled = 0;
	if (scan->kill_prior_tuple)
	{
		add_position(dead, so, so->currPos.itemIndex);
		scan->kill_prior_tuple = false;
	}
}

/*
 * Makes sure that so->killedItems exists: in the memory of the scan, whose end
 * frees it.  Mirrors a part of btgettuple() in nbtree.c.
 */
static void
reserve_killed_items(IndexScanDesc scan)
{
	BTScanOpaque so = (BTScanOpaque) scan->opaque;

	if (so->killedItems == NULL)
		so->killedItems = MemoryContextAlloc(GetMemoryChunkContext(so),
											 MaxTIDsPerBTreePage * sizeof(int));
}

/*
 * Gives the dead items to core, which stands on their leaf.
 */
void
la_btree_kill_hand_over(LaDeadItems *dead, IndexScanDesc scan)
{
	BTScanOpaque so = (BTScanOpaque) scan->opaque;

	if (dead->count == 0)
		return;
	reserve_killed_items(scan);
	for (int i = 0; i < dead->count && so->numKilled < MaxTIDsPerBTreePage; i++)
		so->killedItems[so->numKilled++] = dead->items[i].item;
	dead->count = 0;
}

/*
 * Marks the dead items of a leaf that core has left: borrows so->currPos for
 * the call of _bt_killitems().  An error in there ends the scan, which is then
 * never used again; so nothing is put back after one.  Relies on
 * _bt_killitems() in nbtutils.c.
 */
void
la_btree_kill_flush(LaDeadItems *dead, IndexScanDesc scan, BlockNumber page,
					XLogRecPtr lsn)
{
	BTScanOpaque so = (BTScanOpaque) scan->opaque;
	BTScanPos	position = &so->currPos;
	int			nitems = Min(dead->count, MaxTIDsPerBTreePage);
	Size		saved_size = offsetof(BTScanPosData, items) +
		nitems * sizeof(BTScanPosItem);
	void	   *saved;

	dead->count = 0;
	if (nitems == 0 || !so->dropPin)
		return;

	Assert(so->numKilled == 0);
	reserve_killed_items(scan);
	saved = MemoryContextAlloc(dead->context, saved_size);
	memcpy(saved, position, saved_size);

	position->buf = InvalidBuffer;
	position->currPage = page;
	position->lsn = lsn;
	position->firstItem = 0;
	position->lastItem = nitems - 1;
	position->itemIndex = 0;
	for (int i = 0; i < nitems; i++)
	{
		position->items[i].heapTid = dead->items[i].tid;
		position->items[i].indexOffset = dead->items[i].offset;
		so->killedItems[i] = i;
	}
	so->numKilled = nitems;
	_bt_killitems(scan);

	memcpy(position, saved, saved_size);
	pfree(saved);
}
