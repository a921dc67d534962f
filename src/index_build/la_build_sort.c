/*-------------------------------------------------------------------------
 *
 * la_build_sort.c
 *	  collects index entries and hands them over in the index's order
 *
 * Entries are kept in the order in which the scan delivers them until it has
 * ended or memory is full.  If they came in order, there is nothing to sort.
 * Otherwise they are distributed over buckets, each of which holds a range
 * of words: a bucket is small enough to be sorted in the processor's cache,
 * or at least in memory, and the buckets one after the other are the whole
 * (see la_build_bucket.c).
 *
 *	 spool  ->  [ a .. f )  [ f .. f ]  ( f .. p )  [ p .. z ]
 *				   sort	     in order      sort        sort     ->  load
 *
 * When memory is full before the scan has ended, the buckets get files.
 * Whatever the size, an entry is written and read once: no runs, no merge.
 * Only what the sample did not foretell, a bucket too large for memory, is
 * distributed a second time.
 *
 * Within a bucket a stable radix sort looks at the words; entries whose
 * words are equal are sorted by the next word of their keys, and in the end
 * by core's comparators if the key has columns that have no words.  Equal
 * keys stay in the order in which they came, which is that of their heap
 * TIDs; if it is not (the rows of a HOT chain have the TID of its root),
 * they are sorted by TID.
 *
 * A bucket that is too large and cannot be distributed, because all its
 * entries have equal words and no more words, goes through core's tuplesort.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "common/int.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"

#include "index_build/la_build_bucket.h"
#include "index_build/la_build_radix.h"
#include "index_build/la_build_sort.h"

/*
 * Most buckets: limited by how many memory pages can be written to in turn
 * without exhausting the processor's TLB, and for buckets with files by the
 * 8 kB buffer that each file has.  Arbitrary within that.
 */
#define MAX_BUCKETS 1024
#define MAX_FILE_BUCKETS 256

/*
 * Entries of a bucket when everything fits into memory: 32 bytes for each
 * (the entry and its copy during the sort) stay within 1 MB, half of the L2
 * cache of today's server processors.
 */
#define BUCKET_ENTRIES (32 * 1024)

/*
 * Records asked for ahead of the one being loaded: the time of one cache miss
 * is about that of loading eight.  Most span two cache lines, of 64 bytes.
 */
#define PREFETCH_RECORDS 8
#define PREFETCH_SECOND_LINE 56

struct LaSort
{
	Relation	heap;
	LaBuildKey *key;
	int64		bytes;			/* memory for everything */
	int64		sort_bytes;		/* of it, for sorting one bucket */
	LaChunkPool pool;			/* has the rest */
	int64		reserve;		/* chunks of it, see most_buckets() */

	LaSpool		spool;			/* until there are buckets */
	LaSpool		nulls;			/* first column is NULL */
	LaBuckets  *buckets;		/* once memory was full */
	MemoryContext tuple_context;	/* for index_form_tuple() */

	/* Where strings are kept with tuples: room for one, and for both. */
	LaKeyBytes *kept;
	char	   *with_kept;
	bool		first_word_only;	/* some were too long to be kept */

	int64		count;
	uint64		last_place;
	bool		places_disordered;

	LaSample	sample;			/* of the words being sorted */

	/* Places of dead rows of a unique index, for sort_by_core(). */
	uint64	   *dead;
	int64		ndead;
	int64		dead_size;

	LaOutput   *output;
	bool		are_null;		/* the part of the output, see
								 * la_build_output.h */

	/* The first word of entries whose records have a later one. */
	bool		in_later_word;
	uint64		first_word;
};

static void add_record(LaSort *sort, LaSpool *spool, uint64 word, uint64 place,
					   const ItemPointerData *tid, const Datum *values,
					   const bool *isnull);
static void remember_dead(LaSort *sort, uint64 place);
static void begin_buckets(LaSort *sort, double fraction_done);
static void leave_share(LaSort *sort);
static LaBuckets *make_buckets(LaSort *sort, uint64 low, uint64 high,
							   double wanted, int most);
static void drain_buckets(LaSort *sort, LaBuckets *buckets, int word);
static void drain(LaSort *sort, LaSpool *spool, int word, uint64 low,
				  uint64 high);
static void drain_whole(LaSort *sort);
static void drain_next_word(LaSort *sort, LaSpool *spool, int word);
static void put_as_it_is(LaSort *sort, LaSpool *spool);
static void sort_in_memory(LaSort *sort, LaSpool *spool, int word);
static void sort_by_core(LaSort *sort, LaSpool *spool);
static void put_from_core(LaSort *sort, const LaSpool *spool,
						  IndexTuple tuple, uint64 place);

/*
 * Most buckets, if memory allows: while records are moved into buckets, each
 * of these has a chunk that is not full.  For those, and for the buffers of
 * files, that many chunks (twice as many if there are files) are held in
 * reserve.
 */
static int
most_buckets(int64 chunks, int most)
{
	return Max(Min(most, chunks / 16), 2);
}

static int64
reserve_of(int64 chunks)
{
	return Max(most_buckets(chunks, MAX_BUCKETS),
			   2 * most_buckets(chunks, MAX_FILE_BUCKETS));
}

static int64
sort_bytes(int64 bytes)
{
	return Max(bytes / 32, 2 * LA_CHUNK_SIZE);
}

/*
 * How many chunks a sort with the given memory may fill with entries.
 */
int64
la_sort_pool_chunks(int64 bytes)
{
	int64		chunks = la_pool_chunks(bytes - sort_bytes(bytes));

	return chunks - reserve_of(chunks);
}

/*
 * Starts to collect the entries of an index, using at most `bytes` of memory,
 * in the current context.
 */
LaSort *
la_sort_begin(Relation heap, LaBuildKey *key, int64 bytes, LaPoolShare *share)
{
	LaSort	   *sort = palloc0(sizeof(LaSort));

	sort->heap = heap;
	sort->key = key;
	sort->bytes = bytes;
	sort->sort_bytes = sort_bytes(bytes);
	la_pool_init(&sort->pool, bytes - sort->sort_bytes, share);
	sort->reserve = reserve_of(sort->pool.limit);
	la_spool_init(&sort->spool, &sort->pool, key->kind);
	la_spool_init(&sort->nulls, &sort->pool, key->kind);
	sort->tuple_context = AllocSetContextCreate(CurrentMemoryContext,
												"index build tuple",
												ALLOCSET_SMALL_SIZES);
	if (key->kind == LA_RECORD_BYTES)
	{
		sort->kept = palloc0(la_bytes_size(LA_KEPT_BYTES));
		sort->with_kept = palloc(INDEX_SIZE_MASK + 1 +
								 la_bytes_size(0));
	}
	la_sample_begin(&sort->sample);
	return sort;
}

/*
 * Number of entries added.
 */
int64
la_sort_count(const LaSort *sort)
{
	return sort->count;
}

/*
 * An entry comes, of the row at a place.
 */
static inline void
count_entry(LaSort *sort, uint64 place)
{
	if (place < sort->last_place)
		sort->places_disordered = true;
	sort->last_place = place;
	sort->count++;
}

/*
 * The spool for an entry whose first column is not NULL.
 */
static inline LaSpool *
spool_of(LaSort *sort, uint64 word)
{
	la_sample_add(&sort->sample, word);
	if (sort->buckets == NULL)
		return &sort->spool;
	return &sort->buckets->spools[la_bucket_of(sort->buckets, word)];
}

/*
 * Adds an entry.  `alive` is false for a row that a unique index must
 * contain but not check.
 */
void
la_sort_add(LaSort *sort, const ItemPointerData *tid, const Datum *values,
			const bool *isnull, bool alive)
{
	uint64		place = la_place_make(tid, alive);
	uint64		word;
	LaSpool    *spool;

	count_entry(sort, place);
	if (unlikely(!alive))
		remember_dead(sort, place);

	if (sort->key->is_word)
		word = isnull[0] ? 0 : la_key_word_of_value(&sort->key->columns[0],
													values[0]);
	else
		word = la_key_first_word(sort->key, values, isnull);

	spool = isnull[0] ? &sort->nulls : spool_of(sort, word);

	if (spool->kind != LA_RECORD_WORD)
		add_record(sort, spool, word, place, tid, values, isnull);
	else
		la_spool_add(spool, word, place, sizeof(LaRecord));
}

/*
 * May entries be added by la_sort_add_values()?
 */
bool
la_sort_takes_values(const LaSort *sort)
{
	return sort->key->fixed_size > 0;
}

/*
 * Room for a live entry that is not NULL.
 */
static inline LaRecord *
add_live(LaSort *sort, uint64 word, uint64 place, Size size)
{
	count_entry(sort, place);
	return la_spool_add(spool_of(sort, word), word, place, size);
}

/*
 * Adds live entries of a key of a fixed size (see LaBuildKey.fixed_size), none of
 * them NULL.
 */
void
la_sort_add_values(LaSort *sort, const Datum *values, const uint64 *places,
				   int count)
{
	const LaBuildKey *key = sort->key;

	if (key->is_word)
	{
		/* this is la_key_word_of_value() */
		uint64		value_bits = la_key_value_bits(&key->columns[0]);
		uint64		flipped_bits = la_key_word_of_value(&key->columns[0], 0);

		for (int i = 0; i < count; i++)
			add_live(sort, (values[i] & value_bits) ^ flipped_bits, places[i],
					 sizeof(LaRecord));
		return;
	}
	for (int i = 0; i < count; i++)
	{
		LaRecord   *record = add_live(sort, la_key_fixed_word(key, values[i]),
									  places[i],
									  sizeof(LaRecord) + key->fixed_size);
		IndexTuple	tuple = la_record_tuple(record);

		la_key_form_tuple(key, &values[i], key->fixed_size, tuple);
		la_place_get_tid(places[i], &tuple->t_tid);
	}
}

/*
 * Adds a record with its index tuple.  The size is aligned as core's
 * _bt_buildadd() wants it; index_form_tuple() has done that.
 */
static void
add_record(LaSort *sort, LaSpool *spool, uint64 word, uint64 place,
		   const ItemPointerData *tid, const Datum *values, const bool *isnull)
{
	Size		size = la_key_tuple_size(sort->key, values, isnull);
	Size		bytes_size = 0;
	IndexTuple	tuple;
	LaRecord   *record;

	if (spool->kind == LA_RECORD_BYTES)
	{
		if (!la_key_make_bytes(sort->key, values, isnull, sort->kept))
			sort->first_word_only = true;
		bytes_size = la_bytes_size(sort->kept->length);
	}
	if (size > 0 && size <= BTMaxItemSize)
	{
		record = la_spool_add(spool, word, place,
							  sizeof(LaRecord) + size + bytes_size);
		tuple = la_record_tuple(record);
		la_key_form_tuple(sort->key, values, size, tuple);
	}
	else
	{
		IndexTuple	formed = index_form_tuple_context(sort->key->tupdesc, values,
													  isnull,
													  sort->tuple_context);

		size = IndexTupleSize(formed);
		Assert(size == MAXALIGN(size));
		record = la_spool_add(spool, word, place,
							  sizeof(LaRecord) + size + bytes_size);
		tuple = la_record_tuple(record);
		memcpy(tuple, formed, size);
		MemoryContextReset(sort->tuple_context);
	}
	tuple->t_tid = *tid;
	if (bytes_size > 0)
		memcpy(la_tuple_bytes(tuple), sort->kept, bytes_size);
}

static void
remember_dead(LaSort *sort, uint64 place)
{
	if (sort->ndead == sort->dead_size)
	{
		sort->dead_size = Max(2 * sort->dead_size, 64);
		if (sort->dead == NULL)
			sort->dead = palloc(sort->dead_size * sizeof(uint64));
		else
			sort->dead = repalloc_huge(sort->dead,
									   sort->dead_size * sizeof(uint64));
	}
	sort->dead[sort->ndead++] = place;
}

/*
 * Moves entries to files if memory is nearly full; to be called at least
 * once for each page of the table.  fraction_done tells how much of the
 * table has been read, for guessing how many entries are to come.
 */
void
la_sort_limit_memory(LaSort *sort, double fraction_done)
{
	if (!la_pool_is_full(&sort->pool, sort->reserve))
		return;

	la_spool_to_file(&sort->nulls);
	if (sort->buckets == NULL && sort->spool.ordered)
		la_spool_to_file(&sort->spool);
	else
	{
		if (sort->buckets == NULL)
			begin_buckets(sort, fraction_done);
		la_buckets_to_files(sort->buckets);
	}
	if (sort->pool.share != NULL)
		leave_share(sort);
}

/*
 * Makes buckets for what has come and what is to come, and moves the former there.
 */
static void
begin_buckets(LaSort *sort, double fraction_done)
{
	double		more = 1 / Max(fraction_done, 0.001);
	double		wanted = Max(sort->spool.nbytes * more * 8 / sort->bytes,
							 sort->spool.nrecords * more / BUCKET_ENTRIES);
	int64		limit = sort->pool.limit;

	sort->buckets = make_buckets(sort, 0, PG_UINT64_MAX, wanted,
								 MAX_FILE_BUCKETS);
	/* no early move to files, which would be one of many small pieces */
	sort->pool.limit = sort->pool.nused + sort->reserve;
	la_buckets_distribute(sort->buckets, &sort->spool);
	sort->pool.limit = limit;
}

/*
 * Goes on with the memory that is this process's own.
 */
static void
leave_share(LaSort *sort)
{
	int64		limit = sort->pool.limit;

	la_pool_leave_share(&sort->pool, sort->reserve);
	sort->bytes -= (limit - sort->pool.limit) * LA_CHUNK_SIZE;
	sort->reserve = reserve_of(sort->pool.limit);
}

/*
 * Sorts all entries and hands them over to `output`.
 */
void
la_sort_finish(LaSort *sort, LaOutput *output)
{
	bool		nulls_first = sort->key->columns[0].nulls_first;

	sort->output = output;
	if (sort->buckets != NULL)
	{
		/* memory for the rest is now needed for sorting what is read back */
		la_buckets_to_files(sort->buckets);
		la_spool_to_file(&sort->nulls);
		la_pool_reset(&sort->pool, sort->bytes / 2);
		sort->sort_bytes = sort->bytes / 2;
	}
	else
		sort->pool.limit = Max(sort->pool.limit,
							   sort->pool.nused + sort->reserve);

	for (int pass = 0; pass < 2; pass++)
	{
		sort->are_null = (pass == 0) == nulls_first;
		output->begin_part(output, sort->are_null);
		if (sort->are_null)
			drain(sort, &sort->nulls, 0, 0,
				  sort->key->nencoded > 1 ? PG_UINT64_MAX : 0);
		else if (sort->buckets != NULL)
			drain_buckets(sort, sort->buckets, 0);
		else
			drain_whole(sort);
		output->end_part(output);
	}
}

/*
 * Makes as many buckets as are wanted, if `most` and memory allow.
 */
static LaBuckets *
make_buckets(LaSort *sort, uint64 low, uint64 high, double wanted, int most)
{
	int			count = Min(wanted, most_buckets(sort->pool.limit, most));

	return la_buckets_make(&sort->pool, sort->key->kind, &sort->sample,
						   low, high, Max(count, 2));
}

static void
drain_buckets(LaSort *sort, LaBuckets *buckets, int word)
{
	for (int i = 0; i < buckets->count; i++)
	{
		uint64		high = i + 1 < buckets->count ?
			buckets->bounds[i + 1] - 1 : buckets->high;

		drain(sort, &buckets->spools[i], word, buckets->bounds[i], high);
	}
	la_buckets_free(buckets);
}

/*
 * Memory for sorting the records of a spool at once: an entry and its copy
 * for each.
 */
static int64
sort_size(const LaSpool *spool)
{
	return spool->nrecords * 2 * sizeof(LaEntry);
}

/*
 * Whether a spool can be sorted at once.  Index tuples that are in a file
 * need memory of the pool, too, which may have been given away.
 */
static bool
fits_in_memory(const LaSort *sort, const LaSpool *spool)
{
	int64		free_bytes = (sort->pool.limit - sort->pool.nused) * LA_CHUNK_SIZE;
	int64		tuple_bytes = 0;

	if (spool->kind != LA_RECORD_WORD && spool->file != NULL)
		tuple_bytes = Max(spool->nbytes - Max(free_bytes, 0), 0);
	return sort_size(spool) + tuple_bytes <= sort->sort_bytes;
}

/*
 * Hands over all records whose first column is not NULL, while they are
 * still in one spool.
 */
static void
drain_whole(LaSort *sort)
{
	LaSpool    *spool = &sort->spool;
	int64		wanted;
	LaBuckets  *buckets;

	if ((spool->ordered && spool->kind == LA_RECORD_WORD) ||
		spool->nrecords <= 2 * BUCKET_ENTRIES)
	{
		drain(sort, spool, 0, 0, PG_UINT64_MAX);
		return;
	}

	wanted = Max(spool->nrecords / BUCKET_ENTRIES,
				 2 * sort_size(spool) / sort->sort_bytes);
	buckets = make_buckets(sort, 0, PG_UINT64_MAX, wanted, MAX_BUCKETS);
	la_buckets_distribute(buckets, spool);
	drain_buckets(sort, buckets, 0);
}

/*
 * Hands over the records of a spool in order.  Their words, all between low
 * and high, are the word-th of the keys; everything before is equal.
 */
static void
drain(LaSort *sort, LaSpool *spool, int word, uint64 low, uint64 high)
{
	bool		keys_are_equal = spool->kind == LA_RECORD_WORD ||
		(sort->are_null && sort->key->nkeyatts == 1);

	if (spool->nrecords == 0)
		return;
	if (spool->ordered && keys_are_equal)
		put_as_it_is(sort, spool);
	else if (fits_in_memory(sort, spool))
		sort_in_memory(sort, spool, word);
	else if (low < high)
	{
		int64		wanted = 4 * sort_size(spool) / sort->sort_bytes;
		LaBuckets  *buckets = make_buckets(sort, low, high, wanted,
										   MAX_FILE_BUCKETS);

		la_buckets_distribute(buckets, spool);
		if (sort->pool.nused > sort->pool.limit / 2)
			la_buckets_to_files(buckets);
		drain_buckets(sort, buckets, word);
	}
	else if (spool->kind != LA_RECORD_WORD && sort->key->nencoded > 0 &&
			 !sort->first_word_only)
		drain_next_word(sort, spool, word + 1);
	else
		sort_by_core(sort, spool);
}

/*
 * Hands over the records of a spool, too many to be sorted at once, whose
 * words are all equal: replaces these by the next words of the keys, of which
 * it takes a sample.
 */
static void
drain_next_word(LaSort *sort, LaSpool *spool, int word)
{
	LaSpool		next;
	LaSpoolReader reader;
	LaRecord   *record;
	uint64		low = PG_UINT64_MAX;
	uint64		high = 0;
	bool		more = false;
	LaSample	outer = sort->sample;
	bool		was_in_later_word = sort->in_later_word;

	if (!sort->in_later_word)
		sort->first_word = spool->first_word;
	sort->in_later_word = true;
	la_sample_begin(&sort->sample);
	la_spool_init(&next, &sort->pool, spool->kind);
	la_spool_read(spool, &reader, false);
	while ((record = la_spool_next(&reader)) != NULL)
	{
		uint64		bytes;

		more |= la_key_next_word(sort->key, la_record_tuple(record), word,
								 &bytes);
		low = Min(low, bytes);
		high = Max(high, bytes);
		la_sample_add(&sort->sample, bytes);
		la_spool_add_copy(&next, bytes, record);
		if (sort->pool.nused > sort->pool.limit)
			la_spool_to_file(&next);
	}

	if (more)
		drain(sort, &next, word, low, high);
	else if (next.ordered && la_key_is_complete(sort->key))
		put_as_it_is(sort, &next);
	else
		sort_by_core(sort, &next);
	pfree(sort->sample.words);
	sort->sample = outer;
	sort->in_later_word = was_in_later_word;
}

/*
 * Hands over an index tuple whose record has the given word.
 */
static inline void
put_tuple(LaSort *sort, IndexTuple tuple, uint64 word, uint64 place)
{
	if (sort->in_later_word)
		word = sort->first_word;
	sort->output->add_tuple(sort->output, tuple, word, place);
}

static void
put_as_it_is(LaSort *sort, LaSpool *spool)
{
	LaSpoolReader reader;
	LaRecord   *record;

	la_spool_read(spool, &reader, false);
	if (spool->kind == LA_RECORD_WORD)
	{
		while (la_spool_next_chunk(&reader))
			sort->output->add_words(sort->output, (LaRecord *) reader.at,
									(reader.end - reader.at) / sizeof(LaRecord));
		return;
	}
	while ((record = la_spool_next(&reader)) != NULL)
		put_tuple(sort, la_record_tuple(record), record->word, record->place);
}

/*
 * Sorts a spool in memory and hands its records over.  With index tuples the
 * chunks stay where they are and pointers are sorted; without, the records
 * themselves are.
 */
static void
sort_in_memory(LaSort *sort, LaSpool *spool, int word)
{
	int64		count = 0;
	LaEntry    *entries = MemoryContextAllocHuge(CurrentMemoryContext,
												 sort_size(spool));
	bool		has_tuples = spool->kind != LA_RECORD_WORD;
	LaRadix		radix = {sort->key, has_tuples, sort->places_disordered,
	has_tuples && sort->first_word_only};
	LaSpoolReader reader;
	LaRecord   *record;

	la_spool_read(spool, &reader, has_tuples);
	while ((record = la_spool_next(&reader)) != NULL)
	{
		entries[count].word = record->word;
		if (has_tuples)
			entries[count].record = record;
		else
			entries[count].place = record->place;
		count++;
	}
	Assert(count == spool->nrecords);

	la_radix_sort(&radix, entries, entries + count, count, word);

	if (has_tuples)
	{
		for (int64 i = 0; i < count; i++)
		{
			/* records are in the order of arrival: ask for one ahead */
			if (i + PREFETCH_RECORDS < count)
			{
				record = entries[i + PREFETCH_RECORDS].record;
				__builtin_prefetch(record);
				__builtin_prefetch((char *) record + PREFETCH_SECOND_LINE);
			}
			record = entries[i].record;
			put_tuple(sort, la_record_tuple(record), record->word,
					  record->place);
		}
	}
	else
		sort->output->add_words(sort->output, (LaRecord *) entries, count);
	la_spool_release(&reader);
	pfree(entries);
}

/*
 * The values of a record, as core's tuplesort wants them.
 */
static void
record_values(LaSort *sort, const LaSpool *spool, LaRecord *record,
			  Datum *values, bool *isnull)
{
	if (spool->kind != LA_RECORD_WORD)
		index_deform_tuple(la_record_tuple(record), sort->key->tupdesc,
						   values, isnull);
	else
	{
		isnull[0] = sort->are_null;
		values[0] = isnull[0] ? (Datum) 0 :
			la_key_value_of_word(&sort->key->columns[0], record->word);
	}
}

static int
compare_places(const void *a, const void *b)
{
	return pg_cmp_u64(*(const uint64 *) a, *(const uint64 *) b);
}

/*
 * Sorts a spool by core's tuplesort and hands its records over.
 * Their words are all equal.  Uniqueness is checked when they are loaded, so
 * not by the tuplesort.
 */
static void
sort_by_core(LaSort *sort, LaSpool *spool)
{
	Tuplesortstate *state;
	LaSpoolReader reader;
	LaRecord   *record;
	IndexTuple	tuple;

	state = tuplesort_begin_index_btree(sort->heap, sort->key->index, false,
										false, Max(sort->sort_bytes / 1024, 64),
										NULL, TUPLESORT_NONE);
	la_spool_read(spool, &reader, false);
	while ((record = la_spool_next(&reader)) != NULL)
	{
		Datum		values[INDEX_MAX_KEYS];
		bool		isnull[INDEX_MAX_KEYS];
		ItemPointerData tid;

		record_values(sort, spool, record, values, isnull);
		la_place_get_tid(record->place, &tid);
		tuplesort_putindextuplevalues(state, sort->key->index, &tid, values,
									  isnull);
	}
	tuplesort_performsort(state);

	qsort(sort->dead, sort->ndead, sizeof(uint64), compare_places);
	while ((tuple = tuplesort_getindextuple(state, true)) != NULL)
	{
		uint64		place = la_place_make(&tuple->t_tid, false);

		if (sort->ndead == 0 ||
			bsearch(&place, sort->dead, sort->ndead, sizeof(uint64),
					compare_places) == NULL)
			place = la_place_make(&tuple->t_tid, true);
		put_from_core(sort, spool, tuple, place);
	}
	tuplesort_end(state);
}

/*
 * Hands over an index tuple of the tuplesort, in the form that other spools
 * of this index have.
 */
static void
put_from_core(LaSort *sort, const LaSpool *spool, IndexTuple tuple,
			  uint64 place)
{
	LaRecord	record = {0, place};
	bool		isnull;
	Datum		value;

	if (spool->kind == LA_RECORD_TUPLE)
	{
		put_tuple(sort, tuple, spool->first_word, place);
		return;
	}
	if (spool->kind == LA_RECORD_BYTES)
	{
		Size		size = IndexTupleSize(tuple);

		/* the tuplesort has not kept strings */
		memcpy(sort->with_kept, tuple, size);
		sort->kept->length = 0;
		memcpy(sort->with_kept + size, sort->kept, la_bytes_size(0));
		put_tuple(sort, (IndexTuple) sort->with_kept, spool->first_word, place);
		return;
	}
	value = index_getattr(tuple, 1, sort->key->tupdesc, &isnull);
	if (!isnull)
		record.word = la_key_word_of_value(&sort->key->columns[0], value);
	sort->output->add_words(sort->output, &record, 1);
}
