/*-------------------------------------------------------------------------
 *
 * la_build_tree.c
 *	  fills the pages of a btree with items in order
 *
 * Mirrors what _bt_load() in nbtsort.c calls: block numbers given out in the same
 * order, the same decision when a page is full, high keys truncated by core's
 * _bt_truncate(), and the same bytes left over in the middle of a page.  Each
 * level of the tree has a page that is being filled; one that is full goes to the
 * writer, and a downlink to the level above.
 *
 * Reads PageHeaderData of bufpage.h, and BTPageOpaqueData and BTScanInsertData of
 * nbtree.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/rel.h"

#include "index_build/entries/la_build_record.h"
#include "index_build/load/la_build_tree.h"

static void add_item(LaTree *tree, LaLevel *level, IndexTuple tuple,
					 Size posting_size);

/*
 * Starts to fill an index, which is empty, with pages that go to `pages`.
 */
void
la_build_tree_begin(LaTree *tree, Relation heap, Relation index, LaPageWriter *pages)
{
	memset(tree, 0, sizeof(*tree));
	tree->heap = heap;
	tree->index = index;
	tree->pages = pages;
	tree->inskey = _bt_mkscankey(index, NULL);
	tree->inskey->allequalimage = _bt_allequalimage(index, true);
	tree->next_block = BTREE_METAPAGE + 1;
}

/*
 * An empty page, with a line pointer reserved for the high key.  Mirrors
 * _bt_blnewpage() in nbtsort.c.
 */
static Page
new_page(LaTree *tree, uint32 level)
{
	Page		page = la_page_writer_get(tree->pages);
	BTPageOpaque opaque;

	_bt_pageinit(page, BLCKSZ);
	opaque = BTPageGetOpaque(page);
	opaque->btpo_prev = opaque->btpo_next = P_NONE;
	opaque->btpo_level = level;
	opaque->btpo_flags = level > 0 ? 0 : BTP_LEAF;
	opaque->btpo_cycleid = 0;
	((PageHeader) page)->pd_lower += sizeof(ItemIdData);
	return page;
}

/*
 * Starts a level.  Mirrors _bt_pagestate() in nbtsort.c.
 */
static LaLevel *
make_level(LaTree *tree, uint32 level)
{
	LaLevel    *state = palloc0(sizeof(LaLevel));

	state->page = new_page(tree, level);
	state->block = tree->next_block++;
	state->last_offset = P_HIKEY;
	state->level = level;
	if (level > 0)
		state->full = BLCKSZ * (100 - BTREE_NONLEAF_FILLFACTOR) / 100;
	else
		state->full = BTGetTargetPageFreeSpace(tree->index);
	return state;
}

/*
 * Makes the leaf level, when the first entry comes: it gets the first block.
 */
void
la_build_tree_begin_leaves(LaTree *tree)
{
	tree->leaf = make_level(tree, 0);
}

/*
 * Puts an item after the last one of a page, for which there is room.  Mirrors
 * PageAddItemExtended() in bufpage.c where nothing has to be moved.
 */
static inline void
put_item(Page page, OffsetNumber offset, const IndexTupleData *tuple, Size size)
{
	PageHeader	header = (PageHeader) page;

	header->pd_lower += sizeof(ItemIdData);
	header->pd_upper -= MAXALIGN(size);
	ItemIdSetNormal(PageGetItemId(page, offset), header->pd_upper, size);
	la_build_record_copy((char *) page + header->pd_upper, tuple, size);
}

/*
 * The first item of a page above the leaves needs no key: it stands for
 * minus infinity.  Mirrors _bt_sortaddtup() in nbtsort.c.
 */
static void
put_minus_infinity(Page page, IndexTuple tuple)
{
	IndexTupleData bare = *tuple;

	bare.t_info = sizeof(IndexTupleData);
	BTreeTupleSetNAtts(&bare, 0, false);
	put_item(page, P_FIRSTKEY, &bare, sizeof(IndexTupleData));
}

/*
 * Adds a page to the level above, under its low key.
 */
static void
link_to_parent(LaTree *tree, LaLevel *level, BlockNumber block)
{
	if (level->parent == NULL)
		level->parent = make_level(tree, level->level + 1);
	BTreeTupleSetDownLink(level->low_key, block);
	add_item(tree, level->parent, level->low_key, 0);
	pfree(level->low_key);
	level->low_key = NULL;
}

/*
 * Cuts off what the high key of a leaf does not need to tell its page from
 * the next.  Returns the new high key, which is in the page.
 */
static IndexTuple
truncate_high_key(LaTree *tree, LaLevel *level, OffsetNumber last_offset)
{
	Page		page = level->page;
	IndexTuple	high_key;
	IndexTuple	last_left;
	IndexTuple	truncated;

	high_key = (IndexTuple) PageGetItem(page, PageGetItemId(page, P_HIKEY));
	last_left = (IndexTuple) PageGetItem(page,
										 PageGetItemId(page, OffsetNumberPrev(last_offset)));
	truncated = _bt_truncate(tree->index, last_left, high_key, tree->inskey);
	if (!PageIndexTupleOverwrite(page, P_HIKEY, (char *) truncated,
								 IndexTupleSize(truncated)))
		elog(ERROR, "failed to add high key to the index page");
	pfree(truncated);
	return (IndexTuple) PageGetItem(page, PageGetItemId(page, P_HIKEY));
}

/*
 * Finishes the current page of a level and starts its right sibling with the
 * page's last item, a copy of which becomes the high key.
 */
static void
finish_page(LaTree *tree, LaLevel *level)
{
	Page		page = level->page;
	BlockNumber block = level->block;
	OffsetNumber last_offset = level->last_offset;
	Page		sibling = new_page(tree, level->level);
	BlockNumber sibling_block = tree->next_block++;
	ItemId		last = PageGetItemId(page, last_offset);
	IndexTuple	high_key = (IndexTuple) PageGetItem(page, last);

	CHECK_FOR_INTERRUPTS();
	Assert(last_offset > P_FIRSTKEY);
	if (level->level > 0)
		put_minus_infinity(sibling, high_key);
	else
		put_item(sibling, P_FIRSTKEY, high_key, ItemIdGetLength(last));

	/* the last item takes the place that was kept free for the high key */
	*PageGetItemId(page, P_HIKEY) = *last;
	ItemIdSetUnused(last);
	((PageHeader) page)->pd_lower -= sizeof(ItemIdData);
	if (level->level == 0)
		high_key = truncate_high_key(tree, level, last_offset);

	link_to_parent(tree, level, block);
	level->low_key = CopyIndexTuple(high_key);
	BTPageGetOpaque(page)->btpo_next = sibling_block;
	BTPageGetOpaque(sibling)->btpo_prev = block;
	la_page_writer_put(tree->pages, block, page);

	level->page = sibling;
	level->block = sibling_block;
	level->last_offset = P_FIRSTKEY;
	if (level->level == 0)
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE,
									 tree->done);
}

/*
 * Adds an item to a level, finishing the current page if it is full.  Mirrors
 * _bt_buildadd() in nbtsort.c.  posting_size is the size of the item's
 * posting list, if any.
 */
static void
add_item(LaTree *tree, LaLevel *level, IndexTuple tuple, Size posting_size)
{
	bool		isleaf = level->level == 0;
	Size		size = MAXALIGN(IndexTupleSize(tuple));
	Size		space = PageGetFreeSpace(level->page);
	Size		last_posting_size = level->last_posting_size;

	level->last_posting_size = posting_size;
	if (unlikely(size > BTMaxItemSize))
		_bt_check_third_page(tree->index, tree->heap, isleaf, level->page,
							 tuple);

	if (space < size + (isleaf ? MAXALIGN(sizeof(ItemPointerData)) : 0) ||
		(space + last_posting_size < level->full &&
		 level->last_offset > P_FIRSTKEY))
		finish_page(tree, level);

	if (level->last_offset == P_HIKEY)
	{
		/* the first item of the level: the low key is minus infinity */
		level->low_key = palloc0(sizeof(IndexTupleData));
		level->low_key->t_info = sizeof(IndexTupleData);
		BTreeTupleSetNAtts(level->low_key, 0, false);
	}

	level->last_offset = OffsetNumberNext(level->last_offset);
	if (!isleaf && level->last_offset == P_FIRSTKEY)
		put_minus_infinity(level->page, tuple);
	else
		put_item(level->page, level->last_offset, tuple, size);
}

/*
 * Adds an item to the leaf level.  posting_size is the size of its posting list, if
 * any.
 */
void
la_build_tree_add(LaTree *tree, IndexTuple tuple, Size posting_size)
{
	add_item(tree, tree->leaf, tuple, posting_size);
}

/*
 * The rightmost page of a level has no high key: its line pointers move up
 * by one.  Mirrors _bt_slideleft() in nbtsort.c.
 */
static void
slide_left(Page page)
{
	OffsetNumber last = PageGetMaxOffsetNumber(page);

	for (OffsetNumber i = P_FIRSTKEY; i <= last; i++)
		*PageGetItemId(page, OffsetNumberPrev(i)) = *PageGetItemId(page, i);
	((PageHeader) page)->pd_lower -= sizeof(ItemIdData);
}

/*
 * Finishes all levels and writes the metapage.  Mirrors _bt_uppershutdown() in
 * nbtsort.c.
 */
void
la_build_tree_end(LaTree *tree)
{
	BlockNumber root = P_NONE;
	uint32		root_level = 0;
	Page		metapage;

	for (LaLevel *level = tree->leaf; level != NULL; level = level->parent)
	{
		BlockNumber block = level->block;

		if (level->parent == NULL)
		{
			BTPageGetOpaque(level->page)->btpo_flags |= BTP_ROOT;
			root = block;
			root_level = level->level;
		}
		else
			link_to_parent(tree, level, block);
		slide_left(level->page);
		la_page_writer_put(tree->pages, block, level->page);
	}

	metapage = la_page_writer_get(tree->pages);
	_bt_initmetapage(metapage, root, root_level, tree->inskey->allequalimage);
	la_page_writer_put(tree->pages, BTREE_METAPAGE, metapage);
}
