/*-------------------------------------------------------------------------
 *
 * la_build_drain.c
 *	  hands collected index entries over in the index's order
 *
 * Spool and buckets of la_build_collection.c are emptied one after the other.  An entry
 * is written and read once whatever the size, but for looks that tell whether to move
 * it (la_build_look.c).  Buckets are not merged; only a run of rows that came in order
 * is merged with the rest (la_build_run.c).  Only what the sample did not foretell, a bucket too large for memory, is distributed
 * again, by the same words if these differ, else by the next words in which
 * they do.
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

#include "index_build/sort/la_build_core_sort.h"
#include "index_build/sort/la_build_drain.h"
#include "index_build/sort/la_build_look.h"
#include "index_build/sort/la_build_put.h"
#include "index_build/sort/la_build_radix.h"
#include "index_build/sort/la_build_run.h"

/*
 * How often an entry is distributed after the first time, each of which may be
 * to files.  Bounds the work, and how deep drain_range() nests.  Arbitrary: with the least
 * memory a bucket is divided by two only, with 16 MB by a hundred.
 */
#define MAX_PASSES 12

/*
 * What a pass counts that is for the next word, of entries whose words were equal: each of
 * these divides entries as little as the one before may have done.  Two are made, as
 * la_build_prospect.c has it.
 */
#define WORD_PASSES (MAX_PASSES / 2)

/*
 * The largest share of a pass that one bucket may get for the sample to be of use
 * for it again.  Arbitrary: two buckets of a good sample have about half each.
 */
#define MAX_SHARE 0.75

static void make_room_for_sorting(LaCollection *entries);
static void give_rest_to_sorting(LaCollection *entries);
static void drain_part(LaDrain *drain);
static void drain_whole(LaDrain *drain);
static void drain_in_groups(LaDrain *drain, LaSpool *spool);
static void drain_group(LaDrain *drain, LaSpool *group);
static void drain_buckets(LaDrain *drain, LaBuckets *buckets,
						  const LaWordRange *range, int64 nrecords);
static void drain_range(LaDrain *drain, LaSpool *spool, const LaWordRange *range);
static void drain_by_buckets(LaDrain *drain, LaSpool *spool,
							 const LaWordRange *range, const LaBuildKey *key);
static void drain_by_own_sample(LaDrain *drain, LaSpool *spool, LaWordRange range,
								const LaBuildKey *key);
static void drain_next_word(LaDrain *drain, LaSpool *spool, LaWordRange range);

/*
 * Sorts all entries and hands them over to `output`.
 */
void
la_drain(LaCollection *entries, LaOutput *output)
{
	bool		nulls_first = entries->key->columns[0].nulls_first;
	LaDrain		drain = {entries, entries->key, output};

	if (entries->run.nrecords > 0)
		drain.output = la_run_begin(output, entries->key, &entries->run);
	if (entries->core != NULL)
		la_core_sort_perform(entries->core);
	else
		make_room_for_sorting(entries);

	for (int pass = 0; pass < 2; pass++)
	{
		drain.are_null = (pass == 0) == nulls_first;
		drain.output->begin_part(drain.output, drain.are_null);
		drain_part(&drain);
		drain.output->end_part(drain.output);
	}
	if (entries->core != NULL)
		la_core_sort_end(entries->core);
}

/*
 * Divides the memory between what is in it and what is being sorted.  If anything is in
 * files, all of it goes there: memory is needed for sorting what is read back.
 */
static void
make_room_for_sorting(LaCollection *entries)
{
	LaChunkPool *pool = &entries->pool;

	if (entries->buckets == NULL && entries->spool.file == NULL &&
		entries->nulls.file == NULL && entries->run.file == NULL)
	{
		pool->limit = Max(pool->limit, pool->nused + entries->reserve);
		give_rest_to_sorting(entries);
		return;
	}
	if (entries->buckets != NULL)
		la_buckets_to_files(entries->buckets);
	la_spool_to_file(&entries->spool);
	la_spool_to_file(&entries->nulls);
	la_spool_to_file(&entries->run);
	la_pool_reset(pool, entries->bytes / 2);
	entries->sort_bytes = entries->bytes / 2;
}

/*
 * With everything in memory, has the memory that no entries have come for used for
 * sorting, so that what buckets do not divide can be sorted at once.
 */
static void
give_rest_to_sorting(LaCollection *entries)
{
	LaChunkPool *pool = &entries->pool;
	int64		chunks = Max(pool->nallocated, pool->nused + entries->reserve);

	if (pool->share == NULL)
		entries->sort_bytes = Max(entries->sort_bytes,
								  entries->bytes - chunks * LA_CHUNK_SIZE);
}

/*
 * Hands over a part of the output, see la_build_output.h.
 */
static void
drain_part(LaDrain *drain)
{
	LaCollection *entries = drain->entries;
	LaWordRange range = {.sample = &entries->sample};

	if (entries->core != NULL)
		la_core_sort_put_part(entries->core, drain->output, drain->are_null,
							  entries->merged, 0);
	else if (entries->without_keys)
		la_put_as_it_is(drain, drain->are_null ? &entries->nulls : &entries->spool,
						&range);
	else if (drain->are_null)
	{
		range.high = drain->key->nencoded > 1 ? PG_UINT64_MAX : 0;
		range.sample = NULL;	/* it is of the others */
		drain_range(drain, &entries->nulls, &range);
	}
	else if (entries->buckets != NULL)
		drain_buckets(drain, entries->buckets, &range, entries->count);
	else
		drain_whole(drain);
}

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
	la_buckets_free(buckets);
}

/*
 * Memory for sorting the records of a spool at once, besides the records with
 * index tuples.
 */
static int64
sort_size(const LaSpool *spool)
{
	return la_radix_memory(spool->nrecords);
}

/*
 * Bytes of a spool that have to come from files to be sorted.
 */
static int64
filed_bytes(const LaSpool *spool)
{
	return spool->kind != LA_RECORD_WORD && spool->file != NULL ? spool->nbytes : 0;
}

/*
 * Whether a spool can be sorted at once.  Index tuples that are in a file
 * need memory of the pool, too, which may have been given away.
 */
static bool
fits_in_memory(const LaCollection *entries, const LaSpool *spool)
{
	int64		free_bytes = (entries->pool.limit - entries->pool.nused) * LA_CHUNK_SIZE;
	int64		tuple_bytes = Max(filed_bytes(spool) - Max(free_bytes, 0), 0);

	return sort_size(spool) + tuple_bytes <= entries->sort_bytes;
}

/*
 * Hands over all records whose first column is not NULL, while they are
 * still in one spool.
 */
static void
drain_whole(LaDrain *drain)
{
	LaCollection *entries = drain->entries;
	LaSpool    *spool = &entries->spool;
	LaWordRange range = {.high = PG_UINT64_MAX,.sample = &entries->sample};
	bool		has_tuples = spool->kind != LA_RECORD_WORD;
	LaBuckets  *buckets;
	int64		wanted;

	if (spool->ordered)
		range.low = range.high = spool->first_word;
	if (has_tuples && la_look_in_order(spool, drain->key))
		la_put_as_it_is(drain, spool, &range);
	else if (has_tuples && spool->ordered && spool->first_word != spool->last_word)
		drain_in_groups(drain, spool);
	else if (spool->ordered || spool->file != NULL ||
			 spool->nrecords <= 2 * LA_BUCKET_ENTRIES)
		drain_range(drain, spool, &range);
	else
	{
		wanted = Max(spool->nrecords / LA_BUCKET_ENTRIES,
					 2 * sort_size(spool) / entries->sort_bytes);
		buckets = la_buckets_make(&entries->pool, spool->kind, range.sample,
								  range.low, range.high, wanted, LA_MAX_BUCKETS);
		la_buckets_distribute(buckets, spool, NULL, 0);
		drain_buckets(drain, buckets, &range, entries->count);
	}
}

/*
 * Whether a group (see drain_in_groups()) is to end where the word does.
 */
static bool
group_is_large(const LaCollection *entries, const LaSpool *group)
{
	return group->file != NULL || group->nrecords >= LA_BUCKET_ENTRIES ||
		2 * sort_size(group) >= entries->sort_bytes ||
		2 * group->nbytes >= entries->pool.limit * LA_CHUNK_SIZE;
}

/*
 * Hands over the records of a spool whose words are in order, but not the keys: in
 * groups that end where a word does, each small unless all of it has one word.
 */
static void
drain_in_groups(LaDrain *drain, LaSpool *spool)
{
	LaSpool		group;
	LaSpoolReader reader;
	LaRecord   *record;

	la_spool_init(&group, spool->pool, spool->kind);
	la_spool_read(spool, &reader, false);
	while ((record = la_spool_next(&reader)) != NULL)
	{
		if (group.nrecords > 0 && record->word != group.last_word &&
			group_is_large(drain->entries, &group))
			drain_group(drain, &group);
		la_spool_add_copy(&group, record->word, record);
		if (spool->pool->nused > spool->pool->limit)
			la_spool_to_file(&group);
	}
	drain_group(drain, &group);
}

/*
 * Hands over the records of a group, and begins the next.
 */
static void
drain_group(LaDrain *drain, LaSpool *group)
{
	/* the sample there is is of all groups */
	LaWordRange range = {.low = group->first_word,.high = group->last_word};

	drain_range(drain, group, &range);
	la_spool_init(group, group->pool, group->kind);
}

/*
 * Hands over the records of a spool in order.
 */
static void
drain_range(LaDrain *drain, LaSpool *spool, const LaWordRange *range)
{
	const LaBuildKey *key = drain->key;
	bool		keys_are_equal = spool->kind == LA_RECORD_WORD ||
		(drain->are_null && key->nkeyatts == 1);
	bool		equal_words = range->low == range->high;

	if (spool->nrecords == 0)
		return;
	if (spool->ordered && keys_are_equal)
		la_put_as_it_is(drain, spool, range);
	else if (fits_in_memory(drain->entries, spool))
		la_put_sorted(drain, spool, range);
	else if (spool->ordered && la_look_in_order(spool, key))
		la_put_as_it_is(drain, spool, range);
	else if (range->npasses >= MAX_PASSES)
		la_put_sorted_by_core(drain, spool, range, equal_words);
	else if (!equal_words && range->sample == NULL)
		drain_by_own_sample(drain, spool, *range, NULL);
	else if (!equal_words)
		drain_by_buckets(drain, spool, range, NULL);
	else if (spool->kind != LA_RECORD_WORD && key->nencoded > 0 &&
			 !la_look_has_cut(spool, key))
		drain_next_word(drain, spool, *range);
	else
		la_put_sorted_by_core(drain, spool, range, true);
}

/*
 * Hands over the records of a spool that are too many to be sorted at once.  They
 * carry their words, or if a key is given get new ones on their way into buckets.
 */
static void
drain_by_buckets(LaDrain *drain, LaSpool *spool, const LaWordRange *range,
				 const LaBuildKey *key)
{
	LaChunkPool *pool = &drain->entries->pool;
	int64		wanted = 4 * (sort_size(spool) + filed_bytes(spool)) /
		drain->entries->sort_bytes;
	LaBuckets  *buckets = la_buckets_make(pool, spool->kind, range->sample,
										  range->low, range->high, wanted,
										  LA_MAX_FILE_BUCKETS);
	int64		nrecords = spool->nrecords;
	LaWordRange once_more = *range;

	la_buckets_distribute(buckets, spool, key, range->word);
	if (pool->nused > pool->limit / 2)
		la_buckets_to_files(buckets);
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

	la_sample_begin(&sample);
	la_look_sample(spool, key, range.word, &sample, &range.low, &range.high);
	range.sample = &sample;
	if (range.low < range.high)
		drain_by_buckets(drain, spool, &range, key);
	else
	{
		/* nothing to divide: not worth moving */
		range.npasses++;
		drain_range(drain, spool, &range);
	}
	pfree(sample.words);
}

/*
 * Hands over the records of a spool, too many to be sorted at once, whose
 * words are all equal, by the next words in which they are not.  What took
 * decompression is not repeated for the words that follow.
 */
static void
drain_next_word(LaDrain *drain, LaSpool *spool, LaWordRange range)
{
	const LaBuildKey *key = drain->key;
	bool		decompressed;
	int			word = la_look_next_word(spool, key, range.word, &decompressed);

	if (word == 0 && spool->ordered && la_key_is_complete(key))
	{
		la_put_as_it_is(drain, spool, &range);
		return;
	}
	if (word == 0)
	{
		la_put_sorted_by_core(drain, spool, &range, true);
		return;
	}
	if (range.word == 0)
		range.first_word = spool->first_word;
	range.word = word;
	range.npasses = decompressed ? MAX_PASSES : range.npasses + WORD_PASSES - 1;
	drain_by_own_sample(drain, spool, range, key);
}
