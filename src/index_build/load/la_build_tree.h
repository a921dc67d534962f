/*-------------------------------------------------------------------------
 *
 * la_build_tree.h
 *	  fills the pages of a btree with items in order
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_TREE_H
#define LA_BUILD_TREE_H

#include "access/itup.h"
#include "access/nbtree.h"
#include "utils/rel.h"

#include "bulk_write/la_page_writer.h"

/* One level of the tree and the page being filled, as core's BTPageState. */
typedef struct LaLevel
{
	Page		page;
	BlockNumber block;
	IndexTuple	low_key;		/* high key of the page to the left */
	OffsetNumber last_offset;
	Size		last_posting_size;	/* of the last item, 0 if it has none */
	uint32		level;
	Size		full;			/* free space at which a page is full */
	struct LaLevel *parent;
} LaLevel;

typedef struct LaTree
{
	Relation	heap;
	Relation	index;
	BTScanInsert inskey;		/* for _bt_truncate() and allequalimage */
	LaPageWriter *pages;
	BlockNumber next_block;
	LaLevel    *leaf;			/* NULL: nothing has come */
	int64		done;			/* entries that have come, which the caller
								 * counts */
} LaTree;

/* More than an item, its line pointer and what is kept free of a page take. */
#define LA_TREE_CLOSE_TO_FULL 64

extern void la_build_tree_begin(LaTree *tree, Relation heap, Relation index,
								LaPageWriter *pages);
extern void la_build_tree_begin_leaves(LaTree *tree);
extern void la_build_tree_add(LaTree *tree, IndexTuple tuple, Size posting_size);
extern void la_build_tree_end(LaTree *tree);

/*
 * Room in the leaf page for the next item, of a size below LA_TREE_CLOSE_TO_FULL
 * and without posting list, which the caller fills.  NULL where the page may be full:
 * la_build_tree_add() decides all close cases.  Reads PageHeaderData of bufpage.h.
 */
static inline IndexTuple
la_build_tree_room(LaTree *tree, Size size)
{
	LaLevel    *level = tree->leaf;
	PageHeader	header = (PageHeader) level->page;
	Size		space = header->pd_upper - header->pd_lower;

	if (level->last_offset <= P_FIRSTKEY || space < 2 * LA_TREE_CLOSE_TO_FULL ||
		space < level->full + LA_TREE_CLOSE_TO_FULL)
		return NULL;
	level->last_offset++;
	level->last_posting_size = 0;
	header->pd_lower += sizeof(ItemIdData);
	header->pd_upper -= size;
	ItemIdSetNormal(PageGetItemId(level->page, level->last_offset),
					header->pd_upper, size);
	return (IndexTuple) (level->page + header->pd_upper);
}

#endif							/* LA_BUILD_TREE_H */
