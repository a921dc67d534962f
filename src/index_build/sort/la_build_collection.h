/*-------------------------------------------------------------------------
 *
 * la_build_collection.h
 *	  keeps index entries until all have come
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_COLLECTION_H
#define LA_BUILD_COLLECTION_H

#include "index_build/entries/la_build_spool.h"
#include "index_build/keys/la_build_key.h"
#include "index_build/keys/la_build_string.h"
#include "index_build/sort/la_build_bucket.h"
#include "index_build/sort/la_build_core_sort.h"

typedef struct LaCollection
{
	Relation	heap;
	LaBuildKey *key;
	MemoryContext context;
	int64		bytes;			/* memory for everything */
	int64		sort_bytes;		/* of it, for sorting one bucket */
	LaChunkPool pool;			/* has the rest */
	int64		reserve;		/* chunks of it, see la_buckets_most() */

	LaSpool		spool;			/* until there are buckets */
	LaSpool		nulls;			/* first column is NULL */
	LaSpool		run;			/* in order, without keys, apart from others:
								 * see la_build_in_order.c */
	LaBuckets  *buckets;		/* once memory was full */
	LaCoreSort *core;			/* or core's sort, which then has all but the
								 * run */
	LaSample	sample;			/* of the words */

	bool		without_keys;	/* words are 0 and strings empty, of all */
	bool		merged;			/* with the entries of other processes */
	int64		next_look;		/* chunks in use when the prospect is looked
								 * at; 0 once it is known */
	LaKeyBytes *kept;			/* where strings are kept: room for one */

	int64		count;
	double		fraction_done;	/* how much of the table has been read */
	uint64		last_place;
	bool		places_disordered;
} LaCollection;

extern int64 la_collection_pool_chunks(int64 bytes);
extern void la_collection_begin(LaCollection *entries, Relation heap,
								LaBuildKey *key, int64 bytes,
								LaPoolShare *share);
extern void la_collection_limit_memory(LaCollection *entries,
									   double fraction_done);
extern void la_collection_hand_to_core(LaCollection *entries);

/*
 * An entry comes, of the row at a place.
 */
static inline void
la_collection_count(LaCollection *entries, uint64 place)
{
	if (place < entries->last_place)
		entries->places_disordered = true;
	entries->last_place = place;
	entries->count++;
}

/*
 * The spool for an entry whose first column is not NULL.
 */
static inline LaSpool *
la_collection_spool(LaCollection *entries, uint64 word)
{
	la_sample_add(&entries->sample, word);
	if (entries->buckets == NULL)
		return &entries->spool;
	return &entries->buckets->spools[la_bucket_of(entries->buckets, word)];
}

/*
 * Adds an entry with the key that is made of the values.  Returns the room for its
 * index tuple, whose size is aligned, to be filled by the caller.
 */
static inline IndexTuple
la_collection_add(LaCollection *entries, const Datum *values,
				  const bool *isnull, uint64 place, Size size)
{
	uint64		word = la_key_make(entries->key, values, isnull, entries->kept);
	LaSpool    *spool = isnull[0] ? &entries->nulls :
		la_collection_spool(entries, word);
	Size		bytes_size = 0;
	IndexTuple	tuple;

	if (entries->kept != NULL)
		bytes_size = la_bytes_size(entries->kept->length);
	tuple = la_record_tuple(la_spool_add(spool, word, place,
										 sizeof(LaRecord) + size + bytes_size));
	if (bytes_size > 0)
		memcpy((char *) tuple + size, entries->kept, bytes_size);
	return tuple;
}

#endif							/* LA_BUILD_COLLECTION_H */
