/*-------------------------------------------------------------------------
 *
 * la_btree_kill.c
 *	  leaf pages of a btree scan that looks ahead, and their dead items
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
 * and the LSN it sets would make a second one give up.
 *
 * Without so->dropPin (unlogged and temporary tables) core keeps the leaf
 * pinned as long as it stands on it, and only then are TIDs safe to mark;
 * there look-ahead waits at the end of the leaf until all is consumed.
 *
 * This is the only file that reads BTScanOpaqueData.  It relies on so->currPos
 * moving by one item a call, and on the next leaf being read by the call that
 * starts on the last item (btgettuple, _bt_next and _bt_steppage in
 * src/backend/access/nbtree).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "utils/memutils.h"

#include "index_scan/la_btree_kill.h"

/* First size of the array of dead items: arbitrary; doubled as needed. */
#define DEAD_ITEMS_INITIAL 32

static void describe_item(LaLeafQueue *queue, BTScanOpaque so,
						  LaTidEntry *entry);
static void reserve_killed_items(IndexScanDesc scan);
static void hand_over(LaLeafQueue *queue, IndexScanDesc scan);
static void flush_left_leaf(LaLeafQueue *queue, IndexScanDesc scan);

/*
 * Does the private state of the btree AM look as nbtree.h says?  The size of
 * its allocation is compared with ours, and, after core has returned an
 * entry, the item on which it stands with that entry.
 */
bool
la_btree_layout_as_expected(IndexScanDesc scan, bool has_entry)
{
	static Size expected_space = 0;
	BTScanOpaque so = (BTScanOpaque) scan->opaque;

	if (expected_space == 0)
	{
		void	   *sample = palloc(sizeof(BTScanOpaqueData));

		expected_space = GetMemoryChunkSpace(sample);
		pfree(sample);
	}
	if (GetMemoryChunkSpace(so) != expected_space)
		return false;
	if (!has_entry || !BTScanPosIsValid(so->currPos))
		return true;
	if (so->currPos.itemIndex < so->currPos.firstItem ||
		so->currPos.itemIndex > so->currPos.lastItem ||
		so->currPos.lastItem >= MaxTIDsPerBTreePage)
		return false;

	/*
	 * Core has moved xs_heaptid along the HOT chain to the row that it
	 * returned, so only the page is that of the entry.
	 */
	return ItemPointerGetBlockNumber(&so->currPos.items[so->currPos.itemIndex].heapTid) ==
		ItemPointerGetBlockNumber(&scan->xs_heaptid);
}

/*
 * Describes the leaf on which a scan stands.  Returns false when it stands on
 * none.
 */
bool
la_btree_window(IndexScanDesc scan, ScanDirection direction,
				LaLeafWindow *window)
{
	BTScanOpaque so = (BTScanOpaque) scan->opaque;

	if (!BTScanPosIsValid(so->currPos))
		return false;
	window->page = so->currPos.currPage;
	window->lsn = so->currPos.lsn;
	if (ScanDirectionIsForward(direction))
	{
		window->current = so->currPos.itemIndex;
		window->end = so->currPos.lastItem + 1;
	}
	else
	{
		window->current = MaxTIDsPerBTreePage - so->currPos.itemIndex;
		window->end = MaxTIDsPerBTreePage - so->currPos.firstItem + 1;
	}
	return true;
}

/*
 * The table page of an entry after the current one of a window.
 */
BlockNumber
la_btree_block_at(IndexScanDesc scan, ScanDirection direction, int position)
{
	BTScanOpaque so = (BTScanOpaque) scan->opaque;
	int			item = ScanDirectionIsForward(direction) ? position :
		MaxTIDsPerBTreePage - position;

	Assert(item >= so->currPos.firstItem && item <= so->currPos.lastItem);
	return ItemPointerGetBlockNumber(&so->currPos.items[item].heapTid);
}

/*
 * Prepares an empty queue.  The context is that of the query.
 */
void
la_leaf_queue_init(LaLeafQueue *queue, MemoryContext context)
{
	memset(queue, 0, sizeof(LaLeafQueue));
	queue->context = context;
}

/*
 * Look-ahead starts where core stands.  What core has noted as dead on this
 * leaf is taken over, so that the leaf is flushed once.
 */
void
la_leaf_queue_start(LaLeafQueue *queue, IndexScanDesc scan)
{
	BTScanOpaque so = (BTScanOpaque) scan->opaque;
	int			current = so->currPos.itemIndex;

	queue->oldest = queue->newest = 0;
	queue->left = !BTScanPosIsValid(so->currPos);
	queue->ndead = 0;
	la_leaf_by_number(queue, 0)->pending = 0;
	if (queue->left)
		return;

	la_leaf_by_number(queue, 0)->page = so->currPos.currPage;
	la_leaf_by_number(queue, 0)->lsn = so->currPos.lsn;
	for (int i = 0; i < so->numKilled; i++)
	{
		LaTidEntry	entry;

		so->currPos.itemIndex = so->killedItems[i];
		describe_item(queue, so, &entry);
		la_leaf_queue_add_dead(queue, &entry);
	}
	so->currPos.itemIndex = current;
	so->numKilled = 0;
	if (scan->kill_prior_tuple)
	{
		LaTidEntry	entry;

		describe_item(queue, so, &entry);
		la_leaf_queue_add_dead(queue, &entry);
		scan->kill_prior_tuple = false;
	}
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
			hand_over(queue, scan);
		return true;
	}
	if (!so->dropPin)
		return false;
	return queue->newest - queue->oldest < LA_LEAVES_MAX - 1;
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
	if (queue->ndead > 0)
	{
		if (queue->oldest == queue->newest && !queue->left)
			hand_over(queue, scan);
		else
			flush_left_leaf(queue, scan);
	}
	queue->oldest = queue->newest = 0;
	queue->left = true;
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
	entry->route = LA_ROUTE_DIRECT;
	entry->recheck = false;
	entry->seen_in = InvalidBuffer;
}

/*
 * Notes a dead item of the oldest leaf.
 */
void
la_leaf_queue_add_dead(LaLeafQueue *queue, const LaTidEntry *entry)
{
	if (queue->dead == NULL)
	{
		queue->maxdead = DEAD_ITEMS_INITIAL;
		queue->dead = MemoryContextAlloc(queue->context,
										 queue->maxdead * sizeof(LaDeadItem));
	}
	else if (queue->ndead == queue->maxdead)
	{
		queue->maxdead *= 2;
		queue->dead = repalloc_array(queue->dead, LaDeadItem, queue->maxdead);
	}
	queue->dead[queue->ndead].tid = entry->tid;
	queue->dead[queue->ndead].offset = entry->offset;
	queue->dead[queue->ndead].item = entry->item;
	queue->ndead++;
}

/*
 * Makes sure that so->killedItems exists, as btgettuple() does: in the memory
 * of the scan, whose end frees it.
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
static void
hand_over(LaLeafQueue *queue, IndexScanDesc scan)
{
	BTScanOpaque so = (BTScanOpaque) scan->opaque;

	if (queue->ndead == 0)
		return;
	reserve_killed_items(scan);
	for (int i = 0; i < queue->ndead && so->numKilled < MaxTIDsPerBTreePage; i++)
		so->killedItems[so->numKilled++] = queue->dead[i].item;
	queue->ndead = 0;
}

/*
 * Marks the dead items of the oldest leaf, which core has left: borrows
 * so->currPos for the call of _bt_killitems().  An error in there ends the
 * scan, which is then never used again; so nothing is put back after one.
 */
static void
flush_left_leaf(LaLeafQueue *queue, IndexScanDesc scan)
{
	BTScanOpaque so = (BTScanOpaque) scan->opaque;
	LaLeaf	   *leaf = la_leaf_by_number(queue, queue->oldest);
	BTScanPos	position = &so->currPos;
	int			nitems = Min(queue->ndead, MaxTIDsPerBTreePage);
	Size		saved_size = offsetof(BTScanPosData, items) +
		nitems * sizeof(BTScanPosItem);
	void	   *saved;

	queue->ndead = 0;
	if (nitems == 0 || !so->dropPin)
		return;

	Assert(so->numKilled == 0);
	reserve_killed_items(scan);
	saved = MemoryContextAlloc(queue->context, saved_size);
	memcpy(saved, position, saved_size);

	position->buf = InvalidBuffer;
	position->currPage = leaf->page;
	position->lsn = leaf->lsn;
	position->firstItem = 0;
	position->lastItem = nitems - 1;
	position->itemIndex = 0;
	for (int i = 0; i < nitems; i++)
	{
		position->items[i].heapTid = queue->dead[i].tid;
		position->items[i].indexOffset = queue->dead[i].offset;
		so->killedItems[i] = i;
	}
	so->numKilled = nitems;
	_bt_killitems(scan);

	memcpy(position, saved, saved_size);
	pfree(saved);
}
