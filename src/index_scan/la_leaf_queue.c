/*-------------------------------------------------------------------------
 *
 * la_leaf_queue.c
 *	  leaf pages whose entries a btree scan has read ahead
 *
 * Fills the ring from the leaf on which the index AM stands, and remembers
 * each leaf until its last entry has been consumed, because what was found dead
 * on it is then to be marked (la_btree_kill.c).
 *
 * Where core drops the pin on a leaf when it has read it (so->dropPin), the AM
 * may move on to the next one while entries are unconsumed.  Elsewhere
 * (unlogged and temporary tables) core keeps the leaf pinned as long as it
 * stands on it, and only then are TIDs safe to mark; there look-ahead waits
 * at the end of the leaf until all is consumed.
 *
 * Reads BTScanOpaqueData, BTScanPosData and BTScanPosItem of nbtree.h, and
 * IndexScanDescData of relscan.h.
 * so->currPos moves by one item a call, and the next leaf is read by the call
 * that starts on the last item (relies on btgettuple() in nbtree.c, _bt_next()
 * and _bt_steppage() in nbtsearch.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/relscan.h"

#include "index_scan/la_leaf_queue.h"

/*
 * Look-ahead starts where core stands.  What core has noted as dead on this
 * leaf is taken over, so that the leaf is flushed once.
 */
void
la_leaf_queue_start(LaLeafQueue *queue, IndexScanDesc scan)
{
	BTScanOpaque so = (BTScanOpaque) scan->opaque;
	LaLeaf	   *leaf = la_leaf_by_number(queue, 0);

	queue->oldest = queue->newest = 0;
	queue->left = !BTScanPosIsValid(so->currPos);
	queue->dead.count = 0;
	leaf->pending = 0;
	if (queue->left)
		return;

	leaf->page = so->currPos.currPage;
	leaf->lsn = so->currPos.lsn;
	la_btree_kill_take_over(&queue->dead, scan);
}

/*
 * May the AM be asked for another entry?  Sets *leaves_page when that makes it
 * leave its leaf; the last moment to hand over the dead items of a leaf that
 * has been consumed.
 */
bool
la_leaf_queue_may_advance(LaLeafQueue *queue, IndexScanDesc scan,
						  ScanDirection direction, bool *leaves_page)
{
	BTScanOpaque so = (BTScanOpaque) scan->opaque;
	LaLeaf	   *newest = la_leaf_by_number(queue, queue->newest);

	if (!BTScanPosIsValid(so->currPos))
		*leaves_page = true;
	else if (ScanDirectionIsForward(direction))
		*leaves_page = so->currPos.itemIndex >= so->currPos.lastItem;
	else
		*leaves_page = so->currPos.itemIndex <= so->currPos.firstItem;

	if (!*leaves_page)
		return true;
	if (newest->pending == 0)
	{
		if (!queue->left)
			la_btree_kill_hand_over(&queue->dead, scan);
		return true;
	}
	if (!so->dropPin)
		return false;
	return queue->newest - queue->oldest < LA_LEAVES_MAX - 1;
}

/*
 * The entry on which the AM stands, for the ring.
 */
static void
describe_item(LaLeafQueue *queue, BTScanOpaque so, LaTidEntry *entry)
{
	BTScanPosItem *item = &so->currPos.items[so->currPos.itemIndex];

	entry->tid = item->heapTid;
	entry->item = so->currPos.itemIndex;
	entry->offset = item->indexOffset;
	entry->leaf = queue->newest % LA_LEAVES_MAX;
	entry->recheck = false;
}

/*
 * The AM has been asked: it returned an entry (found), which *item describes
 * for the ring, or there is none left.
 */
void
la_leaf_queue_advanced(LaLeafQueue *queue, IndexScanDesc scan, bool found,
					   bool leaves_page, LaTidEntry *entry)
{
	BTScanOpaque so = (BTScanOpaque) scan->opaque;
	LaLeaf	   *leaf;

	if (!found)
	{
		queue->left = true;
		return;
	}
	if (leaves_page)
	{
		if (la_leaf_by_number(queue, queue->newest)->pending == 0)
			queue->oldest = queue->newest + 1;
		queue->newest++;
		queue->left = false;
		leaf = la_leaf_by_number(queue, queue->newest);
		leaf->page = so->currPos.currPage;
		leaf->lsn = so->currPos.lsn;
		leaf->pending = 0;
	}
	la_leaf_by_number(queue, queue->newest)->pending++;
	describe_item(queue, so, entry);
}

/*
 * Takes the following entries from the leaf on which the AM stands, as
 * _bt_next() would one by one: at most max_entries of them, and none where the
 * next leaf begins.  Returns how many.
 */
uint32
la_leaf_queue_take(LaLeafQueue *queue, IndexScanDesc scan,
				   ScanDirection direction, LaTidEntry *entries,
				   uint32 max_entries)
{
	BTScanOpaque so = (BTScanOpaque) scan->opaque;
	int			step = ScanDirectionIsForward(direction) ? 1 : -1;
	int			left;
	uint32		taken;

	if (queue->left || !BTScanPosIsValid(so->currPos))
		return 0;
	if (ScanDirectionIsForward(direction))
		left = so->currPos.lastItem - so->currPos.itemIndex;
	else
		left = so->currPos.itemIndex - so->currPos.firstItem;
	taken = Min(Max(left, 0), max_entries);

	for (uint32 i = 0; i < taken; i++)
	{
		so->currPos.itemIndex += step;
		describe_item(queue, so, &entries[i]);
	}
	la_leaf_by_number(queue, queue->newest)->pending += taken;
	return taken;
}

/*
 * Marks the dead items of the oldest leaf, which core has left.
 */
static void
flush_left_leaf(LaLeafQueue *queue, IndexScanDesc scan)
{
	LaLeaf	   *leaf = la_leaf_by_number(queue, queue->oldest);

	la_btree_kill_flush(&queue->dead, scan, leaf->page, leaf->lsn);
}

/*
 * All entries of the oldest leaf have been consumed.
 */
void
la_leaf_queue_finish_oldest(LaLeafQueue *queue, IndexScanDesc scan)
{
	if (queue->oldest != queue->newest)
	{
		flush_left_leaf(queue, scan);
		queue->oldest++;
	}
	else if (queue->left)
		flush_left_leaf(queue, scan);
}

/*
 * The scan restarts or ends, before the AM hears of it.
 */
void
la_leaf_queue_reset(LaLeafQueue *queue, IndexScanDesc scan)
{
	if (queue->dead.count > 0)
	{
		if (queue->oldest == queue->newest && !queue->left)
			la_btree_kill_hand_over(&queue->dead, scan);
		else
			flush_left_leaf(queue, scan);
	}
	queue->oldest = queue->newest = 0;
	queue->left = true;
}

/*
 * Frees what a queue that has been reset holds.
 */
void
la_leaf_queue_free(LaLeafQueue *queue)
{
	if (queue->dead.items != NULL)
		pfree(queue->dead.items);
}
