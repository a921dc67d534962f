/*-------------------------------------------------------------------------
 *
 * la_build_bucket.c
 *	  distributes index entries over ranges of words
 *
 * A bucket is a spool for the entries whose words are in a range.  The
 * bounds of the ranges are quantiles of a sample, so that buckets are of
 * similar size whatever the distribution.  A word that is as frequent as a
 * bucket is large gets a bucket of its own, whose entries need no sorting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"
#include "port/pg_bitutils.h"

#include "index_build/keys/la_build_string.h"
#include "index_build/sort/la_build_bucket.h"

/*
 * Words remembered for finding bounds: at least 64 for each of the most
 * buckets.  When there are more, every other one is forgotten.
 */
#define SAMPLE_SIZE (16 * 1024)

/* Room for words to begin with, so that a small build asks for no more. */
#define FIRST_SAMPLE_SIZE 256

/*
 * Fewest chunks for each kilobyte of a sample: where there is little memory there are
 * few buckets, and of these divided again samples that wait for each other.
 */
#define CHUNKS_PER_SAMPLE_KB 32

/*
 * Starts an empty sample, in the current context, for buckets in a pool of so many
 * chunks.
 */
void
la_build_sample_begin(LaSample *sample, int64 chunks)
{
	sample->room = FIRST_SAMPLE_SIZE;
	sample->most = FIRST_SAMPLE_SIZE;
	while (sample->most < SAMPLE_SIZE &&
		   sample->most * sizeof(uint64) * CHUNKS_PER_SAMPLE_KB < chunks * 1024)
		sample->most *= 2;
	sample->words = palloc(sample->room * sizeof(uint64));
	sample->count = 0;
	sample->every = sample->until_next = 1;
}

/*
 * Keeps a word; see la_build_sample_add().  When there is no more room, every other
 * one is forgotten.
 */
void
la_build_sample_keep(LaSample *sample, uint64 word)
{
	if (sample->count == sample->room && sample->room < sample->most)
	{
		sample->room *= 2;
		sample->words = repalloc(sample->words, sample->room * sizeof(uint64));
	}
	else if (sample->count == sample->most)
	{
		for (int i = 0; i < sample->most / 2; i++)
			sample->words[i] = sample->words[2 * i];
		sample->count /= 2;
		sample->every *= 2;
	}
	sample->words[sample->count++] = word;
	sample->until_next = sample->every;
}

static int
compare_words(const void *a, const void *b)
{
	return pg_cmp_u64(*(const uint64 *) a, *(const uint64 *) b);
}

/*
 * Fills the table that la_build_bucket_of() uses: for equal intervals between the
 * first and the last bound, the bucket of the interval's least word.
 */
static void
index_bounds(LaBuckets *buckets)
{
	uint64		width;
	int			bucket = 0;

	buckets->lowest = buckets->count > 1 ? buckets->bounds[1] : 0;
	width = buckets->bounds[buckets->count - 1] - buckets->lowest;
	buckets->shift = width == 0 ? 0 :
		Max(pg_leftmost_one_pos64(width) + 1 - LOOKUP_BITS, 0);

	for (int i = 0; i < (1 << LOOKUP_BITS); i++)
	{
		uint64		offset = (uint64) i << buckets->shift;

		while (bucket + 1 < buckets->count &&
			   buckets->bounds[bucket + 1] - buckets->lowest <= offset)
			bucket++;
		buckets->table[i] = bucket;
	}

	/* beyond the last bound; the least words of these may overflow */
	buckets->table[1 << LOOKUP_BITS] = buckets->count - 1;
	buckets->table[(1 << LOOKUP_BITS) + 1] = buckets->count - 1;
}

/*
 * Stores the least words of about `count` buckets, and returns of how many: they
 * are quantiles of the sampled words between low and high.  A word that is as
 * frequent as a bucket is large gets a bucket of its own.
 */
static int
find_quantiles(const LaSample *sample, uint64 low, uint64 high, int count,
			   uint64 *bounds)
{
	uint64	   *words = sample->words;
	int			nbounds = 0;
	int			first = 0;
	int			nwords;

	qsort(words, sample->count, sizeof(uint64), compare_words);
	while (first < sample->count && words[first] < low)
		first++;
	words += first;
	nwords = sample->count - first;
	while (nwords > 0 && words[nwords - 1] > high)
		nwords--;

	bounds[nbounds++] = low;
	for (int i = 1; i < count && nwords > 0; i++)
	{
		uint64		word = words[(int64) nwords * i / count];
		bool		repeated = words[(int64) nwords * (i - 1) / count] == word;

		if (word > bounds[nbounds - 1])
			bounds[nbounds++] = word;
		else if (repeated && word == bounds[nbounds - 1] && word < high)
			bounds[nbounds++] = word + 1;
	}
	return nbounds;
}

/*
 * Buckets for words between low and high, about as many as wanted, if the memory of
 * the pool allows.
 */
LaBuckets *
la_build_buckets_make(LaChunkPool *pool, LaRecordKind kind, const LaSample *sample,
					  uint64 low, uint64 high, double wanted)
{
	int			count = Max((int) Min(wanted, la_build_buckets_most(pool->limit)), 2);
	uint64	   *bounds = palloc((2 * count + 1) * sizeof(uint64));
	int			nbounds = find_quantiles(sample, low, high, count, bounds);
	LaBuckets  *buckets;

	if (nbounds == 1 && low < high)
	{
		/* the sample tells nothing: equal parts of the range */
		uint64		width = (high - low) / count + 1;

		nbounds = (high - low) / width + 1;
		for (int i = 0; i < nbounds; i++)
			bounds[i] = low + width * i;
	}
	buckets = palloc(sizeof(LaBuckets));
	buckets->count = nbounds;
	buckets->bounds = bounds;
	buckets->high = high;
	buckets->spools = palloc(nbounds * sizeof(LaSpool));
	for (int i = 0; i < nbounds; i++)
		la_build_spool_init(&buckets->spools[i], pool, kind);
	index_bounds(buckets);
	return buckets;
}

/*
 * Moves what is in memory to files.
 */
void
la_build_buckets_to_files(LaBuckets *buckets)
{
	for (int i = 0; i < buckets->count; i++)
		la_build_spool_to_file(&buckets->spools[i]);
}

/*
 * Moves the records of a spool into buckets, or to their files if memory
 * gets full on the way.  If a key is given, they get the word-th word of theirs.
 */
void
la_build_buckets_distribute(LaBuckets *buckets, LaSpool *spool,
							const LaBuildKey *key, int word)
{
	LaChunkPool *pool = spool->pool;
	LaSpoolReader reader;

	la_build_spool_read(spool, &reader, false);
	while (la_build_spool_next_chunk(&reader))
	{
		while (reader.at < reader.end)
		{
			LaRecord   *record = (LaRecord *) reader.at;
			LaSpool    *target;

			if (key != NULL)
				(void) la_build_string_next_word(key, la_build_record_tuple(record), word,
												 &record->word);
			target = &buckets->spools[la_build_bucket_of(buckets, record->word)];
			reader.at += la_build_spool_add_copy(target, record->word, record);
		}
		if (pool->nused > pool->limit)
			la_build_buckets_to_files(buckets);
	}
}
