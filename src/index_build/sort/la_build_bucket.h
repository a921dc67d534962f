/*-------------------------------------------------------------------------
 *
 * la_build_bucket.h
 *	  distributes index entries over ranges of words
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_BUCKET_H
#define LA_BUILD_BUCKET_H

#include "index_build/entries/la_build_spool.h"
#include "index_build/keys/la_build_key.h"

/* Tables for finding the bucket of a word, see la_build_bucket_of(). */
#define LOOKUP_BITS 12

/*
 * Most buckets: limited by how many memory pages can be written to in turn
 * without exhausting the processor's TLB, and by the 8 kB buffer that each file
 * has.  Arbitrary within that.
 */
#define LA_MAX_BUCKETS 256

/*
 * Entries of a bucket when everything fits into memory: 32 bytes for each
 * (the entry and its copy during the sort) stay within 1 MB, half of the L2
 * cache of today's server processors.
 */
#define LA_BUCKET_ENTRIES (32 * 1024)

/* Words of entries at regular distances. */
typedef struct LaSample
{
	uint64	   *words;
	int			room;			/* entries that fit */
	int			most;			/* entries that it may have room for */
	int			count;
	int64		every;
	int64		until_next;
} LaSample;

typedef struct LaBuckets
{
	int			count;
	uint64	   *bounds;			/* bounds[i] is the least word of bucket i */
	uint64		high;			/* the greatest of the last bucket */
	LaSpool    *spools;

	uint64		lowest;			/* of the table */
	int			shift;
	uint16		table[(1 << LOOKUP_BITS) + 2];
} LaBuckets;

extern void la_build_sample_begin(LaSample *sample, int64 chunks);
extern void la_build_sample_keep(LaSample *sample, uint64 word);
extern LaBuckets *la_build_buckets_make(LaChunkPool *pool, LaRecordKind kind,
										const LaSample *sample, uint64 low,
										uint64 high, double wanted);
extern void la_build_buckets_distribute(LaBuckets *buckets, LaSpool *spool,
										const LaBuildKey *key, int word);
extern void la_build_buckets_to_files(LaBuckets *buckets);

/*
 * Most buckets, if memory of so many chunks allows: while records are moved into
 * buckets, each of these has a chunk that is not full.  For those, and for the buffers
 * of files, that many chunks (twice as many if there are files) are held in reserve.
 */
static inline int
la_build_buckets_most(int64 chunks)
{
	return Max(Min(LA_MAX_BUCKETS, chunks / 16), 2);
}

/*
 * Shows a word to the sample.
 */
static inline void
la_build_sample_add(LaSample *sample, uint64 word)
{
	if (--sample->until_next == 0)
		la_build_sample_keep(sample, word);
}

/*
 * The bucket that a word belongs to.  The table leaves few candidates, or
 * one, unless the words are very unevenly spread.
 */
static inline int
la_build_bucket_of(const LaBuckets *buckets, uint64 word)
{
	uint64		interval;
	int			low;
	int			high;

	if (word < buckets->lowest || buckets->count == 1)
		return 0;
	interval = (word - buckets->lowest) >> buckets->shift;
	if (interval > (1 << LOOKUP_BITS))
		return buckets->count - 1;
	low = buckets->table[interval];
	high = buckets->table[interval + 1];
	while (low < high)
	{
		int			middle = (low + high + 1) / 2;

		if (buckets->bounds[middle] <= word)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

#endif							/* LA_BUILD_BUCKET_H */
