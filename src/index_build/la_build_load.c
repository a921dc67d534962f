/*-------------------------------------------------------------------------
 *
 * la_build_load.c
 *	  fills the pages of a btree with entries in order
 *
 * Makes the very pages that core's _bt_load() (access/nbtree/nbtsort.c)
 * makes of the same entries: block numbers given out in the same order,
 * the same decision when a page is full, posting lists of the same size,
 * high keys truncated by core's _bt_truncate(), and the same bytes left over
 * in the middle of a page.  Tests compare the files.  What differs is that
 * entries without index tuples are written straight into the page, that
 * equality is seen from words or bytes, and the way pages get to disk (see
 * la_page_writer.c).
 *
 * Uniqueness is checked here, where equal keys meet; core does it while it
 * sorts.  Of several duplicates the one with the least key is reported.
 *
 * So is the order, where it is only a guess (see LaBuildKey.is_guess): if each
 * entry compares as less than the next one, all are in the order that the
 * comparison defines, and it does not matter how they got there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/datum.h"
#include "utils/rel.h"

#include "index_build/la_build_load.h"

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

/* Bytes of the index tuple of a key that is a word, see LaBuildKey.is_word. */
#define WORD_TUPLE_SIZE MAXALIGN(sizeof(IndexTupleData) + sizeof(uint64))

/*
 * Largest index tuple with a posting list: a tenth of a page, less one line
 * pointer, as in _bt_load().
 */
#define LARGEST_POSTING \
	MAXALIGN_DOWN(MAXALIGN_DOWN(BLCKSZ * 10 / 100) - sizeof(ItemIdData))

/* More than an item, its line pointer and what add_item() keeps free take. */
#define CLOSE_TO_FULL 64

struct LaLoad
{
	LaOutput	output;			/* first, so that one is the other */
	Relation	heap;
	Relation	index;
	const LaBuildKey *key;
	LaUniqueness uniqueness;
	BTScanInsert inskey;		/* for _bt_truncate() and allequalimage */
	LaPageWriter *writer;
	BlockNumber next_block;
	LaLevel    *leaf;
	int64		done;			/* entries loaded */
	bool		are_null;		/* words are NULLs now */
	bool		disordered;		/* the guess was wrong; nothing is loaded */

	/* What a value has of its word, if that is the whole key. */
	uint64		value_bits;		/* as many of the lowest bits as it has */
	uint64		flipped_bits;	/* of these, see la_key_value_of_word() */

	/*
	 * The group of equal keys that is being collected: its heap TIDs, its
	 * word, and unless that is the whole key an index tuple without posting
	 * list.
	 */
	bool		deduplicate;
	ItemPointer tids;			/* room for LARGEST_POSTING */
	int			ntids;			/* 0: there is no group */
	int			max_tids;		/* for this group; 1 without deduplication */
	uint64		word;
	bool		isnull;
	Size		base_size;
	IndexTuple	base;			/* room for the largest tuple */
	IndexTuple	posting;		/* room for LARGEST_POSTING */

	/* The last live entry of a unique index. */
	bool		has_live;
	uint64		live_word;
	bool		live_isnull;
	IndexTuple	live;
};

static bool is_next(const LaLoad *load, IndexTuple tuple);
static int	most_tids(const LaLoad *load, Size base_size);
static void begin_group(LaLoad *load, Size size, const ItemPointerData *tid);
static void finish_group(LaLoad *load);
static void finish_word_group(LaLoad *load);
static void add_word_item(LaLoad *load);
static void form_word_tuple(const LaLoad *load, IndexTuple tuple, uint64 word,
							bool isnull);
static void check_unique_word(LaLoad *load, uint64 word, bool isnull);
static void check_unique_tuple(LaLoad *load, IndexTuple tuple);
static void report_duplicate(LaLoad *load, IndexTuple tuple);
static void add_item(LaLoad *load, LaLevel *level, IndexTuple tuple,
					 Size posting_size);
static void finish_page(LaLoad *load, LaLevel *level);
static IndexTuple truncate_high_key(LaLoad *load, LaLevel *level,
									OffsetNumber last_offset);
static LaLevel *make_level(LaLoad *load, uint32 level);
static Page new_page(LaLoad *load, uint32 level);
static void finish_levels(LaLoad *load);
static void link_to_parent(LaLoad *load, LaLevel *level, BlockNumber block);
static void slide_left(Page page);
static void write_metapage(LaLoad *load, BlockNumber root, uint32 level);

static void
output_begin_part(LaOutput *output, bool are_null)
{
	la_load_begin_part((LaLoad *) output, are_null);
}

static void
output_add_words(LaOutput *output, const LaRecord *records, int64 count)
{
	la_load_words((LaLoad *) output, records, count);
}

static void
output_add_tuple(LaOutput *output, IndexTuple tuple, uint64 word, uint64 place)
{
	la_load_tuple((LaLoad *) output, tuple, word, place);
}

static void
output_end_part(LaOutput *output)
{
}

/*
 * Starts to fill an index, which is empty, with pages that go to `writer`.
 */
LaLoad *
la_load_begin(Relation heap, Relation index, const LaBuildKey *key,
			  LaUniqueness uniqueness, LaPageWriter *writer)
{
	LaLoad	   *load = palloc0(sizeof(LaLoad));
	Size		largest = key->is_word ? WORD_TUPLE_SIZE : INDEX_SIZE_MASK + 1;

	load->output.begin_part = output_begin_part;
	load->output.add_words = output_add_words;
	load->output.add_tuple = output_add_tuple;
	load->output.end_part = output_end_part;
	load->heap = heap;
	load->index = index;
	load->key = key;
	load->uniqueness = uniqueness;
	load->inskey = _bt_mkscankey(index, NULL);
	load->inskey->allequalimage = _bt_allequalimage(index, true);
	load->next_block = BTREE_METAPAGE + 1;
	load->writer = writer;
	load->deduplicate = load->inskey->allequalimage && !uniqueness.unique &&
		BTGetDeduplicateItems(index);
	if (key->is_word)
	{
		load->value_bits = la_key_value_bits(&key->columns[0]);
		load->flipped_bits = (uint64) la_key_value_of_word(&key->columns[0], 0) &
			load->value_bits;
	}
	load->base = palloc(largest);
	load->posting = palloc(LARGEST_POSTING);
	load->tids = palloc(LARGEST_POSTING);
	if (uniqueness.unique)
		load->live = palloc(largest);
	return load;
}

/*
 * The index as the place where sorted entries go.
 */
LaOutput *
la_load_output(LaLoad *load)
{
	return &load->output;
}

/*
 * Begins a part, see la_build_output.h.
 */
void
la_load_begin_part(LaLoad *load, bool are_null)
{
	load->are_null = are_null;
}

/*
 * Adds entries whose keys are words.  If they are NULL instead, the words are
 * zero.
 */
void
la_load_words(LaLoad *load, const LaRecord *records, int64 count)
{
	int			max_tids = most_tids(load, WORD_TUPLE_SIZE);
	bool		are_null = load->are_null;

	if (load->leaf == NULL)
		load->leaf = make_level(load, 0);
	load->done += count;
	for (int64 i = 0; i < count; i++)
	{
		uint64		word = records[i].word;
		ItemPointer tid;

		if (load->uniqueness.unique && la_place_is_alive(records[i].place))
			check_unique_word(load, word, are_null);

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
		la_place_get_tid(records[i].place, tid);
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
	return _bt_keep_natts_fast(load->index, a, b) > load->key->nkeyatts;
}

/*
 * Adds an entry with its index tuple, whose size is aligned, and the first
 * word of its key.  Keys that are equal have equal words.
 */
void
la_load_tuple(LaLoad *load, IndexTuple tuple, uint64 word, uint64 place)
{
	Size		size = IndexTupleSize(tuple);

	if (unlikely(load->disordered))
		return;
	if (load->uniqueness.unique && la_place_is_alive(place))
		check_unique_tuple(load, tuple);

	load->done++;
	if (load->ntids > 0)
	{
		if (load->ntids < load->max_tids && word == load->word &&
			same_image(load, load->base, load->base_size, tuple))
		{
			load->tids[load->ntids++] = tuple->t_tid;
			return;
		}
		if (load->key->is_guess && !is_next(load, tuple))
		{
			load->disordered = true;
			return;
		}
		finish_group(load);
	}
	else if (load->leaf == NULL)
		load->leaf = make_level(load, 0);
	load->word = word;
	la_copy(load->base, tuple, size);
	begin_group(load, size, &tuple->t_tid);
}

/*
 * Whether an entry comes after those of the current group.
 */
static bool
is_next(const LaLoad *load, IndexTuple tuple)
{
	bool		has_null;
	int			order = la_key_compare(load->key, load->base, tuple, &has_null);

	if (order == 0)
		order = ItemPointerCompare(&load->tids[load->ntids - 1],
								   &tuple->t_tid);
	return order < 0;
}

/*
 * Most TIDs in a posting list whose base has a given size.  The limit is
 * applied as in _bt_dedup_save_htid().
 */
static int
most_tids(const LaLoad *load, Size base_size)
{
	if (!load->deduplicate || base_size >= LARGEST_POSTING)
		return 1;
	return Max((LARGEST_POSTING - base_size) / sizeof(ItemPointerData), 1);
}

/*
 * Starts a group with load->base.
 */
static void
begin_group(LaLoad *load, Size size, const ItemPointerData *tid)
{
	load->base_size = size;
	load->tids[0] = *tid;
	load->ntids = 1;
	load->max_tids = most_tids(load, size);
}

/*
 * Adds a group whose key is a word to the leaf level.
 */
static void
finish_word_group(LaLoad *load)
{
	if (load->ntids == 1)
	{
		add_word_item(load);
		return;
	}
	form_word_tuple(load, load->base, load->word, load->isnull);
	load->base_size = WORD_TUPLE_SIZE;
	finish_group(load);
}

/*
 * Adds a group of one word with one TID: writes the index tuple into the
 * page, as add_item() would if the page is not full.
 */
static inline void
add_word_item(LaLoad *load)
{
	LaLevel    *level = load->leaf;
	PageHeader	header = (PageHeader) level->page;
	Size		space = header->pd_upper - header->pd_lower;
	IndexTuple	tuple;

	/* with room to spare, so that add_item() decides all close cases */
	if (level->last_offset <= P_FIRSTKEY || load->isnull ||
		space < 2 * CLOSE_TO_FULL ||
		space < level->full + CLOSE_TO_FULL)
	{
		form_word_tuple(load, load->base, load->word, load->isnull);
		load->base_size = WORD_TUPLE_SIZE;
		finish_group(load);
		return;
	}

	level->last_offset++;
	level->last_posting_size = 0;
	header->pd_lower += sizeof(ItemIdData);
	header->pd_upper -= WORD_TUPLE_SIZE;
	ItemIdSetNormal(PageGetItemId(level->page, level->last_offset),
					header->pd_upper, WORD_TUPLE_SIZE);
	tuple = (IndexTuple) (level->page + header->pd_upper);
	form_word_tuple(load, tuple, load->word, false);
	tuple->t_tid = load->tids[0];
	load->ntids = 0;
}

/*
 * Adds the group to the leaf level, as a posting list if it has several
 * TIDs.  The posting list tuple is made as in _bt_form_posting().
 */
static void
finish_group(LaLoad *load)
{
	IndexTuple	posting = load->posting;
	Size		size;

	if (load->ntids == 1)
	{
		load->base->t_tid = load->tids[0];
		add_item(load, load->leaf, load->base, 0);
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
	add_item(load, load->leaf, posting, size - load->base_size);
	load->ntids = 0;
}

/*
 * The index tuple that index_form_tuple() makes of one value passed by
 * value, or of NULL; without its TID.
 */
static inline void
form_word_tuple(const LaLoad *load, IndexTuple tuple, uint64 word, bool isnull)
{
	uint64		image = isnull ? 0 : (word ^ load->flipped_bits) & load->value_bits;

#ifdef WORDS_BIGENDIAN
	image <<= 64 - 8 * load->key->columns[0].width;
#endif
	memcpy((char *) tuple + sizeof(IndexTupleData), &image, sizeof(image));
	tuple->t_info = isnull ? WORD_TUPLE_SIZE | INDEX_NULL_MASK : WORD_TUPLE_SIZE;
}

static void
check_unique_word(LaLoad *load, uint64 word, bool isnull)
{
	if (load->has_live && load->live_word == word &&
		load->live_isnull == isnull &&
		(!isnull || load->uniqueness.nulls_not_distinct))
	{
		form_word_tuple(load, load->live, word, isnull);
		report_duplicate(load, load->live);
	}
	load->has_live = true;
	load->live_word = word;
	load->live_isnull = isnull;
}

static void
check_unique_tuple(LaLoad *load, IndexTuple tuple)
{
	bool		has_null;

	if (load->has_live &&
		la_key_compare(load->key, load->live, tuple, &has_null) == 0 &&
		(!has_null || load->uniqueness.nulls_not_distinct))
		report_duplicate(load, load->live);
	load->has_live = true;
	la_copy(load->live, tuple, IndexTupleSize(tuple));
}

/*
 * Core's error of comparetup_index_btree_tiebreak() (tuplesortvariants.c).  Of
 * keys that are equal without being the same, core names the one that its sort
 * has on the left when it compares them, as a rule the row that came first.
 */
static void
report_duplicate(LaLoad *load, IndexTuple tuple)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	char	   *description;

	index_deform_tuple(tuple, load->key->tupdesc, values, isnull);
	description = BuildIndexValueDescription(load->index, values, isnull);
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("could not create unique index \"%s\"",
					RelationGetRelationName(load->index)),
			 description ? errdetail("Key %s is duplicated.", description) :
			 errdetail("Duplicate keys exist."),
			 errtableconstraint(load->heap,
								RelationGetRelationName(load->index))));
}

/*
 * Puts an item after the last one of a page, as PageAddItem() does where
 * nothing has to be moved.  There is room.
 */
static inline void
put_item(Page page, OffsetNumber offset, const IndexTupleData *tuple, Size size)
{
	PageHeader	header = (PageHeader) page;

	header->pd_lower += sizeof(ItemIdData);
	header->pd_upper -= MAXALIGN(size);
	ItemIdSetNormal(PageGetItemId(page, offset), header->pd_upper, size);
	la_copy((char *) page + header->pd_upper, tuple, size);
}

/*
 * The first item of a page above the leaves needs no key: it stands for
 * minus infinity.
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
 * Adds an item to a level, finishing the current page if it is full.  The
 * rules are those of _bt_buildadd().  posting_size is the size of the item's
 * posting list, if any.
 */
static void
add_item(LaLoad *load, LaLevel *level, IndexTuple tuple, Size posting_size)
{
	bool		isleaf = level->level == 0;
	Size		size = MAXALIGN(IndexTupleSize(tuple));
	Size		space = PageGetFreeSpace(level->page);
	Size		last_posting_size = level->last_posting_size;

	level->last_posting_size = posting_size;
	if (unlikely(size > BTMaxItemSize))
		_bt_check_third_page(load->index, load->heap, isleaf, level->page,
							 tuple);

	if (space < size + (isleaf ? MAXALIGN(sizeof(ItemPointerData)) : 0) ||
		(space + last_posting_size < level->full &&
		 level->last_offset > P_FIRSTKEY))
		finish_page(load, level);

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
 * Finishes the current page of a level and starts its right sibling with the
 * page's last item, a copy of which becomes the high key.
 */
static void
finish_page(LaLoad *load, LaLevel *level)
{
	Page		page = level->page;
	BlockNumber block = level->block;
	OffsetNumber last_offset = level->last_offset;
	Page		sibling = new_page(load, level->level);
	BlockNumber sibling_block = load->next_block++;
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
		high_key = truncate_high_key(load, level, last_offset);

	link_to_parent(load, level, block);
	level->low_key = CopyIndexTuple(high_key);
	BTPageGetOpaque(page)->btpo_next = sibling_block;
	BTPageGetOpaque(sibling)->btpo_prev = block;
	la_page_writer_put(load->writer, block, page);

	level->page = sibling;
	level->block = sibling_block;
	level->last_offset = P_FIRSTKEY;
	if (level->level == 0)
		pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE,
									 load->done);
}

/*
 * Cuts off what the high key of a leaf does not need to tell its page from
 * the next.  Returns the new high key, which is in the page.
 */
static IndexTuple
truncate_high_key(LaLoad *load, LaLevel *level, OffsetNumber last_offset)
{
	Page		page = level->page;
	IndexTuple	high_key;
	IndexTuple	last_left;
	IndexTuple	truncated;

	high_key = (IndexTuple) PageGetItem(page, PageGetItemId(page, P_HIKEY));
	last_left = (IndexTuple) PageGetItem(page,
										 PageGetItemId(page, OffsetNumberPrev(last_offset)));
	truncated = _bt_truncate(load->index, last_left, high_key, load->inskey);
	if (!PageIndexTupleOverwrite(page, P_HIKEY, (Item) truncated,
								 IndexTupleSize(truncated)))
		elog(ERROR, "failed to add high key to the index page");
	pfree(truncated);
	return (IndexTuple) PageGetItem(page, PageGetItemId(page, P_HIKEY));
}

/*
 * Adds a page to the level above, under its low key.
 */
static void
link_to_parent(LaLoad *load, LaLevel *level, BlockNumber block)
{
	if (level->parent == NULL)
		level->parent = make_level(load, level->level + 1);
	BTreeTupleSetDownLink(level->low_key, block);
	add_item(load, level->parent, level->low_key, 0);
	pfree(level->low_key);
	level->low_key = NULL;
}

static LaLevel *
make_level(LaLoad *load, uint32 level)
{
	LaLevel    *state = palloc0(sizeof(LaLevel));

	state->page = new_page(load, level);
	state->block = load->next_block++;
	state->last_offset = P_HIKEY;
	state->level = level;
	if (level > 0)
		state->full = BLCKSZ * (100 - BTREE_NONLEAF_FILLFACTOR) / 100;
	else
		state->full = BTGetTargetPageFreeSpace(load->index);
	return state;
}

/*
 * An empty page, with a line pointer reserved for the high key.
 */
static Page
new_page(LaLoad *load, uint32 level)
{
	Page		page = la_page_writer_get(load->writer);
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
 * Finishes the index.  False if its entries were not in order: then its file
 * has pages that are of no use.
 */
bool
la_load_end(LaLoad *load)
{
	if (!load->disordered)
		finish_levels(load);
	la_page_writer_end(load->writer);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, load->done);
	return !load->disordered;
}

/*
 * Finishes all levels and writes the metapage, as _bt_uppershutdown().
 */
static void
finish_levels(LaLoad *load)
{
	BlockNumber root = P_NONE;
	uint32		root_level = 0;

	if (load->ntids > 0 && load->key->is_word)
		finish_word_group(load);
	else if (load->ntids > 0)
		finish_group(load);

	for (LaLevel *level = load->leaf; level != NULL; level = level->parent)
	{
		BlockNumber block = level->block;

		if (level->parent == NULL)
		{
			BTPageGetOpaque(level->page)->btpo_flags |= BTP_ROOT;
			root = block;
			root_level = level->level;
		}
		else
			link_to_parent(load, level, block);
		slide_left(level->page);
		la_page_writer_put(load->writer, block, level->page);
	}

	write_metapage(load, root, root_level);
}

/*
 * The rightmost page of a level has no high key: its line pointers move up
 * by one.
 */
static void
slide_left(Page page)
{
	OffsetNumber last = PageGetMaxOffsetNumber(page);

	memmove(PageGetItemId(page, P_HIKEY), PageGetItemId(page, P_FIRSTKEY),
			(last - P_HIKEY) * sizeof(ItemIdData));
	((PageHeader) page)->pd_lower -= sizeof(ItemIdData);
}

static void
write_metapage(LaLoad *load, BlockNumber root, uint32 level)
{
	Page		page = la_page_writer_get(load->writer);

	_bt_initmetapage(page, root, level, load->inskey->allequalimage);
	la_page_writer_put(load->writer, BTREE_METAPAGE, page);
}
