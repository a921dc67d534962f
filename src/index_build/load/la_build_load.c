/*-------------------------------------------------------------------------
 *
 * la_build_load.c
 *	  makes btree items of entries in order, and with them the index
 *
 * Mirrors _bt_load() in nbtsort.c: makes the very pages that core makes of the
 * same entries, with posting lists of the same size.  Tests compare the files.
 * What differs is that entries without index tuples are written straight into
 * the page, that equality is seen from words or bytes, and the way pages get to
 * disk (see la_page_writer.c).  What the pages look like is decided in
 * la_build_tree.c.
 *
 * Uniqueness is checked here, where equal keys meet (la_build_unique.c).
 *
 * So is the order, where it comes from the sort keys of a collation: if each
 * entry compares as less than the next one, all are in the order that the
 * comparison defines, and it does not matter how they got there.
 *
 * Reads BTScanInsertData of nbtree.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/injection_point.h"
#include "utils/rel.h"

#include "index_build/entries/la_build_record.h"
#include "index_build/keys/la_build_tuple.h"
#include "index_build/load/la_build_load.h"
#include "index_build/load/la_build_tree.h"
#include "index_build/load/la_build_unique.h"

/*
 * Largest index tuple with a posting list: a tenth of a page, less one line
 * pointer, as in _bt_load().
 */
#define LARGEST_POSTING \
	MAXALIGN_DOWN(MAXALIGN_DOWN(BLCKSZ * 10 / 100) - sizeof(ItemIdData))

StaticAssertDecl(LA_WORD_TUPLE_SIZE + sizeof(ItemIdData) +
				 MAXALIGN(sizeof(ItemPointerData)) < LA_TREE_CLOSE_TO_FULL,
				 "an item of a word must be smaller than what is close to full");

struct LaLoad
{
	LaOutput	output;			/* first, so that one is the other */
	const LaBuildKey *key;
	LaTree		tree;
	bool		are_null;		/* words are NULLs now */
	bool		abandoned;		/* nothing more is loaded: the guess was
								 * wrong, or see la_build_load_abandon() */
	bool		unique;
	LaUniqueCheck check;		/* if it is */
	LaWordForm	word_form;		/* if the word is the whole key */

	/*
	 * The group of equal keys that is being collected: its heap TIDs, its
	 * word, and unless that is the whole key an index tuple without posting
	 * list.
	 */
	bool		deduplicate;
	bool		checks_order;	/* sort keys of a collation are not proof */
	ItemPointer tids;			/* room for LARGEST_POSTING */
	int			ntids;			/* 0: there is no group */
	int			max_tids;		/* for this group; 1 without deduplication */
	uint64		word;
	bool		isnull;
	Size		base_size;
	IndexTuple	base;			/* room for the largest tuple */
	IndexTuple	posting;		/* room for LARGEST_POSTING */
};

/*
 * Most TIDs in a posting list whose base has a given size.  The limit is
 * applied as by core (mirrors _bt_dedup_save_htid() in nbtdedup.c).
 */
static int
most_tids(const LaLoad *load, Size base_size)
{
	if (!load->deduplicate || base_size >= LARGEST_POSTING)
		return 1;
	return Max((LARGEST_POSTING - base_size) / sizeof(ItemPointerData), 1);
}

/*
 * Adds the group to the leaf level, as a posting list if it has several
 * TIDs.  Mirrors _bt_form_posting() in nbtdedup.c.
 */
static void
finish_group(LaLoad *load)
{
	IndexTuple	posting = load->posting;
	Size		size;

	if (load->ntids == 1)
	{
		load->base->t_tid = load->tids[0];
		la_build_tree_add(&load->tree, load->base, 0);
		load->ntids = 0;
		return;
	}

	size = MAXALIGN(load->base_size + load->ntids * sizeof(ItemPointerData));
	memcpy(posting, load->base, load->base_size);
	posting->t_info = (posting->t_info & ~INDEX_SIZE_MASK) | size;
	BTreeTupleSetPosting(posting, load->ntids, load->base_size);
	memcpy(BTreeTupleGetPosting(posting), load->tids,
		   load->ntids * sizeof(ItemPointerData));
	memset((char *) posting + load->base_size +
		   load->ntids * sizeof(ItemPointerData), 0,
		   size - load->base_size - load->ntids * sizeof(ItemPointerData));
	la_build_tree_add(&load->tree, posting, size - load->base_size);
	load->ntids = 0;
}

/*
 * Adds a group whose key is a word to the leaf level: a single TID straight into the
 * page if that is not full.
 */
static inline void
finish_word_group(LaLoad *load)
{
	IndexTuple	tuple = load->ntids > 1 || load->isnull ? NULL :
		la_build_tree_room(&load->tree, LA_WORD_TUPLE_SIZE);

	if (tuple != NULL)
	{
		la_build_word_form_tuple(&load->word_form, tuple, load->word, false);
		tuple->t_tid = load->tids[0];
		load->ntids = 0;
		return;
	}
	la_build_word_form_tuple(&load->word_form, load->base, load->word, load->isnull);
	load->base_size = LA_WORD_TUPLE_SIZE;
	finish_group(load);
}

static void
load_begin_part(LaOutput *output, bool are_null)
{
	((LaLoad *) output)->are_null = are_null;
}

static void
load_end_part(LaOutput *output)
{
}

/*
 * Adds entries whose keys are words.  If they are NULL instead, the words are
 * zero.
 */
static void
load_add_words(LaOutput *output, const LaRecord *records, int64 count)
{
	LaLoad	   *load = (LaLoad *) output;
	int			max_tids = most_tids(load, LA_WORD_TUPLE_SIZE);
	bool		are_null = load->are_null;

	if (load->tree.leaf == NULL)
		la_build_tree_begin_leaves(&load->tree);
	load->tree.done += count;
	for (int64 i = 0; i < count; i++)
	{
		uint64		word = records[i].word;
		ItemPointer tid;

		if (load->unique && la_build_place_is_alive(records[i].place))
			la_build_unique_check_word(&load->check, word, are_null);

		if (load->ntids == max_tids || word != load->word ||
			are_null != load->isnull)
		{
			if (word < load->word && are_null == load->isnull)
				elog(ERROR, "index entries are out of order");
			if (load->ntids > 0)
				finish_word_group(load);
			load->word = word;
			load->isnull = are_null;
		}
		tid = &load->tids[load->ntids++];
		la_build_place_get_tid(records[i].place, tid);
	}
}

/*
 * True if two index tuples have equal keys in the sense of deduplication.
 * Mostly the bytes already tell; if not, values could still be equal images,
 * such as one compressed and one not, so core's function has the last word.
 */
static inline bool
same_image(const LaLoad *load, IndexTuple a, Size size_a, IndexTuple b)
{
	if (size_a == IndexTupleSize(b) && a->t_info == b->t_info &&
		memcmp(a + 1, b + 1, size_a - sizeof(IndexTupleData)) == 0)
		return true;
	if (load->key->nkeyatts == 1 && load->key->columns[0].width > 0)
		return false;
	return _bt_keep_natts_fast(load->tree.index, a, b) > load->key->nkeyatts;
}

/*
 * Whether an entry comes after those of the current group.
 */
static bool
is_next(const LaLoad *load, IndexTuple tuple)
{
	bool		has_null;
	int			order = la_build_tuple_compare(load->key, load->base, tuple, &has_null);

	if (order == 0)
		order = ItemPointerCompare(&load->tids[load->ntids - 1],
								   &tuple->t_tid);
	return order < 0;
}

/*
 * Adds an entry with its index tuple, whose size is aligned, and the first
 * word of its key.  Keys that are equal have equal words.
 */
static void
load_add_tuple(LaOutput *output, IndexTuple tuple, uint64 word, uint64 place)
{
	LaLoad	   *load = (LaLoad *) output;
	Size		size = IndexTupleSize(tuple);

	if (unlikely(load->abandoned))
	{
		CHECK_FOR_INTERRUPTS(); /* which is done for each page otherwise */
		return;
	}
	if (load->unique && la_build_place_is_alive(place))
		la_build_unique_check_tuple(&load->check, tuple);

	load->tree.done++;
	if (load->ntids > 0)
	{
		if (load->ntids < load->max_tids && word == load->word &&
			same_image(load, load->base, load->base_size, tuple))
		{
			load->tids[load->ntids++] = tuple->t_tid;
			return;
		}
		if (load->checks_order && !is_next(load, tuple))
		{
			load->abandoned = true;
			return;
		}
		finish_group(load);
	}
	else if (load->tree.leaf == NULL)
		la_build_tree_begin_leaves(&load->tree);
	load->word = word;
	la_build_record_copy(load->base, tuple, size);
	load->base_size = size;
	load->tids[0] = tuple->t_tid;
	load->ntids = 1;
	load->max_tids = most_tids(load, size);
}

/*
 * Starts to fill an index, which is empty, with so many entries, by pages that go
 * to `pages`.  The table has been scanned.
 */
LaLoad *
la_build_load_begin(Relation heap, Relation index, const LaBuildKey *key,
					const IndexInfo *indexInfo, int64 count, LaPageWriter *pages)
{
	LaLoad	   *load = palloc0(sizeof(LaLoad));
	Size		largest = key->is_word ? LA_WORD_TUPLE_SIZE : INDEX_SIZE_MASK + 1;

	INJECTION_POINT("pg-lookahead-table-scanned", NULL);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_TOTAL, count);
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, 0);
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, 0);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE,
								 PROGRESS_BTREE_PHASE_LEAF_LOAD);

	load->output.begin_part = load_begin_part;
	load->output.add_words = load_add_words;
	load->output.add_tuple = load_add_tuple;
	load->output.end_part = load_end_part;
	load->key = key;
	la_build_tree_begin(&load->tree, heap, index, pages);
	load->unique = indexInfo->ii_Unique;
	if (load->unique)
		la_build_unique_begin(&load->check, heap, index, key,
							  indexInfo->ii_NullsNotDistinct);
	load->checks_order = key->is_guess;
	load->deduplicate = load->tree.inskey->allequalimage &&
		!load->unique && BTGetDeduplicateItems(index);
	if (key->is_word)
		la_build_word_form_init(&load->word_form, key);
	load->base = palloc(largest);
	load->posting = palloc(LARGEST_POSTING);
	load->tids = palloc(LARGEST_POSTING);
	return load;
}

/*
 * The index as the place where sorted entries go.
 */
LaOutput *
la_build_load_output(LaLoad *load)
{
	return &load->output;
}

/*
 * Does not compare entries, because that has been done.
 */
void
la_build_load_trust_order(LaLoad *load)
{
	load->checks_order = false;
}

/*
 * Loads nothing, whatever comes: entries that others send are still to be taken,
 * so that these can end.
 */
void
la_build_load_abandon(LaLoad *load)
{
	load->abandoned = true;
}

/*
 * Finishes the index.  False if it has been abandoned: then its file has pages
 * that are of no use.
 */
bool
la_build_load_end(LaLoad *load)
{
	LaPageWriter *pages = load->tree.pages;

	if (!load->abandoned)
	{
		if (load->ntids > 0 && load->key->is_word)
			finish_word_group(load);
		else if (load->ntids > 0)
			finish_group(load);
		la_build_tree_end(&load->tree);
	}
	la_page_writer_end(pages);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE,
								 load->tree.done);
	return !load->abandoned;
}
