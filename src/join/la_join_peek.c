/*-------------------------------------------------------------------------
 *
 * la_join_peek.c
 *	  a look into a btree: which table pages has a key?
 *
 * Goes down from the root as far as pages are in shared buffers.  What is
 * found only says what to ask the kernel for, and is never part of an answer.
 * So there are no predicate locks, dead entries are skipped and not marked, no
 * scan is counted, and when a page that was waited for has become another one
 * meanwhile, that may cost a request for nothing.  A page is locked for as
 * long as it is looked at, and then not pinned any more.
 *
 * That pages were found in shared buffers is not counted (la_hits.c).  The read of
 * a page that was waited for is, once, here.
 *
 * Reads BTPageOpaqueData and BTScanInsertData of nbtree.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "join/la_join_peek.h"
#include "prefetch/la_hits.h"
#include "prefetch/la_request.h"

/*
 * Most pages that one look goes through, down and to the right: arbitrary, several times
 * the height of any btree.  A page may have become another one while it was waited for.
 */
#define MOST_STEPS 32

/*
 * What is compared with entries: the first columns, and the one of this bound if that is there.
 */
static void
set_bound(const LaJoinSearch *search, const LaJoinBound *bound)
{
	search->key->keysz = search->nkeys;
	if (bound->is_there)
		search->key->scankeys[search->key->keysz++] = bound->key;
}

/*
 * Is an entry behind the last one that is looked for?
 */
static bool
is_behind(Relation index, const LaJoinSearch *search, Page page,
		  OffsetNumber offset)
{
	int			order = _bt_compare(index, search->key, page, offset);

	if (order == 0)
		return search->end.is_there && search->end.is_strict;
	return search->backward ? order > 0 : order < 0;
}

static void
take_block(ItemPointer tid, int most, LaPeek *peek)
{
	BlockNumber block = ItemPointerGetBlockNumber(tid);

	if (peek->nblocks >= most ||
		(peek->nblocks > 0 && peek->blocks[peek->nblocks - 1] == block))
		return;
	peek->blocks[peek->nblocks++] = block;
}

/*
 * Takes the table pages of the entries of a leaf that are looked for, from the
 * one that was searched on, or, backward, from the one before it.  They are
 * all, if another one follows.
 */
static void
take_blocks(Relation index, const LaJoinSearch *search, Page page,
			OffsetNumber first, int most, LaPeek *peek)
{
	OffsetNumber last = PageGetMaxOffsetNumber(page);
	OffsetNumber least = P_FIRSTDATAKEY(BTPageGetOpaque(page));
	int			step = search->backward ? -1 : 1;

	set_bound(search, &search->end);
	for (OffsetNumber offset = search->backward ? first - 1 : first;
		 offset >= least && offset <= last; offset += step)
	{
		ItemId		item = PageGetItemId(page, offset);
		IndexTuple	entry = (IndexTuple) PageGetItem(page, item);

		if (peek->nblocks >= most)
			return;
		if (is_behind(index, search, page, offset))
		{
			peek->complete = true;
			return;
		}
		if (ItemIdIsDead(item))
			continue;
		if (BTreeTupleIsPosting(entry))
		{
			for (int i = 0; i < BTreeTupleGetNPosting(entry); i++)
				take_block(BTreeTupleGetPostingN(entry, i), most, peek);
		}
		else
			take_block(&entry->t_tid, most, peek);
	}
}

/*
 * Where the key is on a page.  Mirrors _bt_binsrch() in nbtsearch.c.
 */
static OffsetNumber
search_page(Relation index, BTScanInsert key, Page page)
{
	BTPageOpaque opaque = BTPageGetOpaque(page);
	OffsetNumber low = P_FIRSTDATAKEY(opaque);
	OffsetNumber high = PageGetMaxOffsetNumber(page);
	int			to_the_right = key->nextkey ? 0 : 1;

	if (high < low)
		return low;
	high++;
	while (high > low)
	{
		OffsetNumber middle = low + (high - low) / 2;

		if (_bt_compare(index, key, page, middle) >= to_the_right)
			low = middle + 1;
		else
			high = middle;
	}
	return P_ISLEAF(opaque) ? low : OffsetNumberPrev(low);
}

/*
 * Looks at one page: returns the one to go on with, or InvalidBlockNumber at the end.
 * Mirrors _bt_moveright() in nbtsearch.c, but that nothing is repaired.
 */
static BlockNumber
look_at_page(Relation index, const LaJoinSearch *search, Buffer buffer,
			 int most, LaPeek *peek)
{
	BTScanInsert key = search->key;
	Page		page = BufferGetPage(buffer);
	BTPageOpaque opaque = BTPageGetOpaque(page);
	int			to_the_right = key->nextkey ? 0 : 1;
	OffsetNumber offset;

	if (P_ISDELETED(opaque))
		return InvalidBlockNumber;
	if (!P_RIGHTMOST(opaque) &&
		(P_IGNORE(opaque) || _bt_compare(index, key, page, P_HIKEY) >= to_the_right))
		return opaque->btpo_next;
	if (P_IGNORE(opaque))
		return InvalidBlockNumber;

	offset = search_page(index, key, page);
	if (!P_ISLEAF(opaque))
	{
		ItemId		item = PageGetItemId(page, offset);

		return BTreeTupleGetDownLink((IndexTuple) PageGetItem(page, item));
	}
	take_blocks(index, search, page, offset, most, peek);
	return InvalidBlockNumber;
}

/*
 * Looks for the table pages of a key, "most" at most, beginning at the root or at an index page
 * that an earlier look has missed.
 */
void
la_join_peek(Relation index, const LaJoinSearch *search, BlockNumber from,
			 int most, LaPeek *peek)
{
	LaHits		hits = la_hits_begin(index);
	Buffer		buffer;

	peek->missing = InvalidBlockNumber;
	peek->complete = false;
	peek->nblocks = 0;
	set_bound(search, &search->start);
	search->key->nextkey =
		search->backward != (search->start.is_there && search->start.is_strict);

	if (from == InvalidBlockNumber)
		buffer = _bt_getroot(index, NULL, BT_READ);
	else
		buffer = _bt_getbuf(index, from, BT_READ);
	for (int step = 0; BufferIsValid(buffer); step++)
	{
		BlockNumber next = look_at_page(index, search, buffer, most, peek);

		_bt_relbuf(index, buffer);
		if (next == InvalidBlockNumber || step == MOST_STEPS)
			break;
		if (la_request_is_needed(index, next))
		{
			peek->missing = next;
			break;
		}
		buffer = _bt_getbuf(index, next, BT_READ);
	}
	la_hits_forget(index, hits);
}
