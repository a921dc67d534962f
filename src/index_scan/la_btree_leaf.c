/*-------------------------------------------------------------------------
 *
 * la_btree_leaf.c
 *	  the leaf page on which a btree scan of core stands
 *
 * A btree scan copies all matching entries of a leaf page when it comes to it,
 * and then stands on one of them.  Here they are looked at where core keeps them,
 * and nothing is changed.
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

#include "index_scan/la_btree_leaf.h"

/*
 * Describes the leaf on which a scan stands.  Returns false when it stands on
 * none.
 */
bool
la_btree_leaf_window(IndexScanDesc scan, ScanDirection direction,
					 LaLeafWindow *window)
{
	BTScanOpaque so = (BTScanOpaque) scan->opaque;

	if (!BTScanPosIsValid(so->currPos))
		return false;
	window->page = so->currPos.currPage;

	/* Core sets it only where it drops the pin on the leaf. */
	window->lsn = so->dropPin ? so->currPos.lsn : InvalidXLogRecPtr;
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
la_btree_leaf_block(IndexScanDesc scan, ScanDirection direction, int position)
{
	BTScanOpaque so = (BTScanOpaque) scan->opaque;
	int			item = ScanDirectionIsForward(direction) ? position :
		MaxTIDsPerBTreePage - position;

	Assert(item >= so->currPos.firstItem && item <= so->currPos.lastItem);
	return ItemPointerGetBlockNumber(&so->currPos.items[item].heapTid);
}

/*
 * Does the private state of the btree AM look as nbtree.h says?  The size of
 * its allocation is compared with ours, and, after core has returned an
 * entry, the item on which it stands with that entry.
 */
bool
la_btree_leaf_as_expected(IndexScanDesc scan, bool has_entry)
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
