/*-------------------------------------------------------------------------
 *
 * la_build_drain.c
 *	  hands collected index entries over in the index's order
 *
 * Spool and buckets of la_build_collect.c are emptied one after the other.  An entry
 * is written and read once whatever the size, but for looks that tell whether to
 * move it (la_build_look.c).  Buckets are not merged.  Only what the sample did not
 * foretell, a bucket too large for memory, is distributed again, by the same words
 * if these differ, else by the next words in which they do.  Entries that came in the
 * order of their words are not distributed, but sorted in groups that end where a word
 * does.
 *
 * A bucket that memory holds is sorted there (la_build_put.c).
 *
 * A bucket that is too large and cannot be distributed, because all its
 * entries have equal words and no more words, goes through core's tuplesort.
 * So does what has been distributed so often that nobody knows whether it
 * will ever end (MAX_PASSES).  Where a sample did not divide the entries, the next
 * one is taken of just these, so that no two passes are in vain.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "index_build/sort/la_build_drain.h"
#include "index_build/sort/la_build_look.h"
#include "index_build/sort/la_build_put.h"
#include "index_build/sort/la_build_radix.h"

/*
 * How often an entry is distributed after the first time, each of which may be
 * to files.  Bounds the work, and how deep drain_range() nests.  Arbitrary: with the least
 * memory a bucket is divided by six, with 16 MB by fifty.
 */
#define MAX_PASSES 4

/*
 * A pass by a later word, for entries whose words are equal, counts as so many of
 * MAX_PASSES: it may divide them as little as the word before.  So there are two at most.
 */
#define WORD_PASSES (MAX_PASSES / 2)

/*
 * The largest share of a pass that one bucket may get for the sample to be of use
 * for it again.  Arbitrary: two buckets of a good sample have about half each.
 */
#define MAX_SHARE 0.75

static void drain_range(LaDrain *drain, LaSpool *spool, const LaWordRange *range);

/*
 * Hands over what `nrecords` records of a range have been distributed to.
 */
static void
drain_buckets(LaDrain *drain, LaBuckets *buckets, const LaWordRange *range,
			  int64 nrecords)
{
	for (int i = 0; i < buckets->count; i++)
	{
		LaSpool    *spool = &buckets->spools[i];
		LaWordRange part = *range;

		part.low = buckets->bounds[i];
		part.high = i + 1 < buckets->count ? buckets->bounds[i + 1] - 1 : buckets->high;
		if (spool->nrecords > nrecords * MAX_SHARE)
			part.sample = NULL; /* it has not divided them */
		drain_range(drain, spool, &part);
	}
	pfree(buckets->bounds);
	pfree(buckets->spools);
	pfree(buckets);
}

/*
 * Memory for sorting the records of a spool at once, besides the records with
 * index tuples.
 */
static int64
sort_size(const LaSpool *spool)
{
	return la_build_radix_memory(spool->nrecords);
}

/*
 * Chunks of a spool that have to come from its file to be sorted: as many as were
 * written, however much is in them.
 */
static int64
filed_chunks(const LaSpool *spool)
{
	return spool->kind != LA_RECORD_WORD ? spool->nfiled : 0;
}

/*
 * Whether a spool can be sorted at once.  Index tuples that are in a file
 * need chunks of the pool, too.  Those beyond its limit are of the memory for
 * sorting.
 */
static bool
fits_in_memory(const LaSort *sort, const LaSpool *spool)
{
	const LaChunkPool *pool = &sort->pool;
	int64		chunks = filed_chunks(spool) + 1;
	int64		beyond = Max(pool->nused + chunks, pool->nallocated) - pool->limit;

	return sort_size(spool) + Max(beyond, 0) * LA_CHUNK_SIZE <= sort->sort_bytes;
}

/*
 * Hands over the records of a spool that are too many to be sorted at once.  They
 * carry their words, or if a key is given get new ones on their way into buckets.
 */
static void
drain_by_buckets(LaDrain *drain, LaSpool *spool, const LaWordRange *range,
				 const LaBuildKey *key)
{
	LaChunkPool *pool = &drain->sort->pool;
	int64		wanted = 4 * (sort_size(spool) + filed_chunks(spool) * LA_CHUNK_SIZE) /
		drain->sort->sort_bytes;
	LaBuckets  *buckets = la_build_buckets_make(pool, spool->kind, range->sample,
												range->low, range->high, wanted);
	int64		nrecords = spool->nrecords;
	bool		was_in_file = spool->file != NULL;
	LaWordRange once_more = *range;

	la_build_buckets_distribute(buckets, spool, key, range->word);

	/*
	 * what comes from a file needs memory that others are still to be read
	 * into
	 */
	if (was_in_file && pool->nused > pool->limit / 2)
		la_build_buckets_to_files(buckets);
	once_more.npasses++;
	drain_buckets(drain, buckets, &once_more, nrecords);
}

/*
 * The same by a sample of these records only, of the words they carry or, if a
 * key is given, will get.
 */
static void
drain_by_own_sample(LaDrain *drain, LaSpool *spool, LaWordRange range,
					const LaBuildKey *key)
{
	LaSample	sample;

	la_build_sample_begin(&sample, drain->sort->pool.limit);
	la_build_look_sample(spool, key, range.word, &sample, &range.low, &range.high);
	range.sample = &sample;
	if (range.low < range.high)
		drain_by_buckets(drain, spool, &range, key);
	else
		drain_range(drain, spool, &range);	/* nothing to divide, so not moved */
	pfree(sample.words);
}

/*
 * Hands over the records of a spool, too many to be sorted at once, whose
 * words are all equal, by the next words in which they are not.
 */
static void
drain_by_next_word(LaDrain *drain, LaSpool *spool, LaWordRange range)
{
	const LaBuildKey *key = drain->sort->key;
	int			word = la_build_look_next_word(spool, key, range.word);

	if (word == LA_NO_WORD)
	{
		la_build_put_sorted_by_core(drain, spool, &range);
		return;
	}
	if (range.word == 0)
		range.first_word = spool->first_word;
	range.word = word;
	range.npasses += WORD_PASSES - 1;
	drain_by_own_sample(drain, spool, range, key);
}

/*
 * Whether a group (see drain_in_groups()) is to end where the word does.
 */
static bool
group_is_large(const LaSort *sort, const LaSpool *group)
{
	return group->file != NULL || group->nrecords >= LA_BUCKET_ENTRIES ||
		2 * sort_size(group) >= sort->sort_bytes ||
		2 * group->nbytes >= sort->pool.limit * LA_CHUNK_SIZE;
}

/*
 * Hands over the records of a group, and begins the next.
 */
static void
drain_group(LaDrain *drain, LaSpool *group)
{
	/*
	 * the sample there is is of all groups; no group is divided into groups
	 * again
	 */
	LaWordRange range = {.low = group->first_word,.high = group->last_word,.npasses = 1};

	drain_range(drain, group, &range);
	la_build_spool_init(group, group->pool, group->kind);
}

/*
 * Hands over the records of a spool whose words are in order, but not the keys: in
 * groups that end where a word does, so that only a word that is too frequent for
 * memory is written again.
 */
static void
drain_in_groups(LaDrain *drain, LaSpool *spool)
{
	LaSpool		group;
	LaSpoolReader reader;
	LaRecord   *record;

	la_build_spool_init(&group, spool->pool, spool->kind);
	la_build_spool_read(spool, &reader, false);
	while ((record = la_build_spool_next(&reader)) != NULL)
	{
		if (group.nrecords > 0 && record->word != group.last_word &&
			group_is_large(drain->sort, &group))
			drain_group(drain, &group);
		la_build_spool_add_copy(&group, record->word, record);
		if (spool->pool->nused > spool->pool->limit)
			la_build_spool_to_file(&group);
	}
	drain_group(drain, &group);
}

/*
 * Hands over the records of a spool in order.
 */
static void
drain_range(LaDrain *drain, LaSpool *spool, const LaWordRange *range)
{
	const LaBuildKey *key = drain->sort->key;
	bool		keys_are_equal = spool->kind == LA_RECORD_WORD ||
		(drain->are_null && key->nkeyatts == 1);
	bool		equal_words = range->low == range->high;

	if (spool->nrecords == 0)
		return;
	if (spool->ordered && (keys_are_equal || la_build_look_in_order(spool, key)))
		la_build_put_as_it_is(drain, spool, range);
	else if (fits_in_memory(drain->sort, spool))
		la_build_put_sorted(drain, spool, range);
	else if (spool->ordered && spool->first_word != spool->last_word &&
			 range->npasses == 0)
		drain_in_groups(drain, spool);
	else if (range->npasses >= MAX_PASSES)
		la_build_put_sorted_by_core(drain, spool, range);
	else if (!equal_words && range->sample == NULL)
		drain_by_own_sample(drain, spool, *range, NULL);
	else if (!equal_words)
		drain_by_buckets(drain, spool, range, NULL);
	else if (spool->kind != LA_RECORD_WORD && key->nencoded > 0)
		drain_by_next_word(drain, spool, *range);
	else
		la_build_put_sorted_by_core(drain, spool, range);
}

/*
 * Hands over a part of the output, see la_build_output.h.
 */
static void
drain_part(LaDrain *drain)
{
	LaSort	   *sort = drain->sort;
	LaSpool    *spool = drain->are_null ? &sort->nulls : &sort->spool;
	LaWordRange range = {.high = PG_UINT64_MAX,.sample = &sort->sample};

	if (sort->in_order)
		la_build_put_as_it_is(drain, spool, &range);
	else if (drain->are_null)
	{
		if (sort->key->nencoded <= 1)
			range.high = 0;
		range.sample = NULL;	/* it is of the others */
		drain_range(drain, spool, &range);
	}
	else if (sort->buckets != NULL)
		drain_buckets(drain, sort->buckets, &range, sort->count);
	else if (spool->ordered || spool->file != NULL ||
			 spool->nrecords <= 2 * LA_BUCKET_ENTRIES)
	{
		if (spool->ordered)
		{
			range.low = spool->first_word;
			range.high = spool->last_word;
		}
		drain_range(drain, spool, &range);
	}
	else
	{
		int64		wanted = Max(spool->nrecords / LA_BUCKET_ENTRIES,
								 2 * sort_size(spool) / sort->sort_bytes);
		LaBuckets  *buckets = la_build_buckets_make(&sort->pool, spool->kind, range.sample,
													range.low, range.high, wanted);

		la_build_buckets_distribute(buckets, spool, NULL, 0);
		drain_buckets(drain, buckets, &range, sort->count);
	}
}

/*
 * Divides the memory between what is in it and what is being sorted.  If anything is in
 * files, all of it goes there: memory is needed for sorting what is read back, and the
 * reserve for the buffers of files.  If not, memory that no entries have come for is used
 * for sorting, so that what buckets do not divide can be sorted at once.
 */
static void
make_room_for_sorting(LaSort *sort)
{
	LaChunkPool *pool = &sort->pool;
	int64		bytes = sort->bytes - sort->reserve * LA_CHUNK_SIZE;

	if (sort->buckets == NULL && sort->spool.file == NULL &&
		sort->nulls.file == NULL)
	{
		int64		chunks = Max(pool->nallocated, pool->nused + sort->reserve);

		pool->limit = Max(pool->limit, pool->nused + sort->reserve);
		sort->sort_bytes = Max(sort->sort_bytes,
							   sort->bytes - chunks * LA_CHUNK_SIZE);
		return;
	}
	if (sort->buckets != NULL)
		la_build_buckets_to_files(sort->buckets);
	la_build_spool_to_file(&sort->spool);
	la_build_spool_to_file(&sort->nulls);
	la_build_pool_reset(pool, bytes / 2);
	sort->sort_bytes = bytes / 2;
}

/*
 * Sorts all entries and hands them over to `output`.
 */
void
la_build_drain(LaSort *sort, LaOutput *output)
{
	bool		nulls_first = sort->key->columns[0].nulls_first;
	LaDrain		drain = {sort, output};

	make_room_for_sorting(sort);
	for (int pass = 0; pass < 2; pass++)
	{
		drain.are_null = (pass == 0) == nulls_first;
		output->begin_part(output, drain.are_null);
		drain_part(&drain);
		output->end_part(output);
	}
}
