/*-------------------------------------------------------------------------
 *
 * la_build_collect.c
 *	  collects index entries
 *
 * What the scan finds comes here row by row, and becomes entries: a word where
 * that is the whole key, else the index tuple with the first word of its key.
 * They are kept in the order in which they come until the scan has ended or
 * memory is full.  If they came in order, there is nothing to sort.  Otherwise
 * they are distributed over buckets, each of which holds a range of words: a
 * bucket is small enough to be sorted in the processor's cache, or at least in
 * memory, and the buckets one after the other are the whole (la_build_bucket.c).
 *
 *	 spool  ->  [ a .. f )  [ f .. f ]  ( f .. p )  [ p .. z ]
 *				   sort	     in order      sort        sort     ->  load
 *
 * When memory is full before the scan has ended, the buckets get files.
 * la_build_drain.c sorts them and hands them over.
 *
 * Sort keys of texts take longer to make than neighbours take to be compared.
 * As long as rows come in order, that is all that is done with them; when one
 * does not, the keys of all are made.
 *
 * Two kinds of rows are for core to index, from the first one on: those that
 * are too long for a btree, for one of them is enough for the index to be
 * refused, in words that PostgreSQL shall find; and those that words hardly
 * divide, of which memory does not hold all (la_build_look_is_poor()).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "utils/memutils.h"

#include "index_build/keys/la_build_string.h"
#include "index_build/keys/la_build_tuple.h"
#include "index_build/sort/la_build_collect.h"
#include "index_build/sort/la_build_look.h"

/*
 * Share of the memory that entries take when it is looked whether words divide them:
 * until then little has been done in vain.  Arbitrary.
 */
#define LOOK_AT 0.125

/*
 * Starts to collect the entries of an index, using at most `bytes` of memory,
 * in the current context.  `is_shared` if other processes collect others, with
 * which they are merged by their words.
 */
LaSort *
la_build_collect_begin(Relation heap, LaBuildKey *key, int64 bytes, bool is_shared)
{
	LaSort	   *sort = palloc0(sizeof(LaSort));

	sort->heap = heap;
	sort->key = key;
	sort->bytes = bytes;
	sort->sort_bytes = Max(bytes / 32, 2 * LA_CHUNK_SIZE);
	la_build_pool_init(&sort->pool, bytes - sort->sort_bytes);
	sort->reserve = 2 * la_build_buckets_most(sort->pool.limit);
	la_build_spool_init(&sort->spool, &sort->pool, key->kind);
	la_build_spool_init(&sort->nulls, &sort->pool, key->kind);
	la_build_sample_begin(&sort->sample, sort->pool.limit);
	sort->tuple_context = AllocSetContextCreate(CurrentMemoryContext,
												"index build tuple",
												ALLOCSET_SMALL_SIZES);
	if (key->kind == LA_RECORD_BYTES)
	{
		sort->kept = palloc0(la_build_bytes_size(LA_KEPT_BYTES));
		sort->in_order = !is_shared;
		for (int i = 0; i < 2; i++)
			sort->last[i] = palloc(INDEX_SIZE_MASK + 1);
	}
	sort->next_look = key->is_word ? PG_INT64_MAX : sort->pool.limit * LOOK_AT;
	return sort;
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
 * Room for an entry whose first column is not NULL.
 */
static inline LaRecord *
add_record(LaSort *sort, uint64 word, uint64 place, Size size)
{
	LaSpool    *spool = &sort->spool;

	la_build_sample_add(&sort->sample, word);
	if (sort->buckets != NULL)
		spool = &sort->buckets->spools[la_build_bucket_of(sort->buckets, word)];
	return la_build_spool_add(spool, word, place, size);
}

/*
 * Adds an entry with the key that is made of the values.  Returns the room for its
 * index tuple, whose size is aligned, to be filled by the caller.
 */
static IndexTuple
add_with_key(LaSort *sort, const Datum *values, const bool *isnull,
			 uint64 place, Size size)
{
	uint64		word = la_build_string_make(sort->key, values, isnull, sort->kept);
	Size		kept_size = sort->kept == NULL ? 0 :
		la_build_bytes_size(sort->kept->length);
	Size		record_size = sizeof(LaRecord) + size + kept_size;
	LaRecord   *record = isnull[0] ?
		la_build_spool_add(&sort->nulls, word, place, record_size) :
		add_record(sort, word, place, record_size);
	IndexTuple	tuple = la_build_record_tuple(record);

	if (kept_size > 0)
		memcpy((char *) tuple + size, sort->kept, kept_size);
	return tuple;
}

/*
 * Adds the rows of a spool once more, with their keys, after so many others.
 */
static void
add_spool_with_keys(LaSort *sort, LaSpool *spool, int64 already)
{
	double		fraction_done = sort->fraction_done;
	LaSpoolReader reader;

	la_build_spool_read(spool, &reader, false);
	while (la_build_spool_next_chunk(&reader))
	{
		while (reader.at < reader.end)
		{
			LaRecord   *record = (LaRecord *) reader.at;
			IndexTuple	tuple = la_build_record_tuple(record);
			Size		size = IndexTupleSize(tuple);
			Datum		values[INDEX_MAX_KEYS];
			bool		isnull[INDEX_MAX_KEYS];

			index_deform_tuple(tuple, sort->key->tupdesc, values, isnull);
			reader.at += la_build_record_size(spool->kind, record);
			memcpy(add_with_key(sort, values, isnull, record->place, size),
				   tuple, size);
			already++;
		}
		la_build_collect_limit_memory(sort, fraction_done * already / sort->count);
	}
}

/*
 * Makes the keys of all rows that have come in order; those that are still to come
 * get theirs at once.
 */
static void
make_keys(LaSort *sort)
{
	LaSpool		spool = sort->spool;
	LaSpool		nulls = sort->nulls;
	int64		next_look = sort->next_look;

	sort->in_order = false;
	sort->next_look = PG_INT64_MAX;
	la_build_spool_init(&sort->spool, &sort->pool, sort->key->kind);
	la_build_spool_init(&sort->nulls, &sort->pool, sort->key->kind);
	add_spool_with_keys(sort, &spool, 0);
	add_spool_with_keys(sort, &nulls, spool.nrecords);
	if (sort->buckets == NULL && sort->spool.file == NULL)
		sort->next_look = next_look;
}

/*
 * Adds a row without a key if it comes behind all others.
 */
static bool
add_in_order(LaSort *sort, IndexTuple tuple, uint64 place, bool isnull)
{
	LaSpool    *spool = isnull ? &sort->nulls : &sort->spool;
	IndexTuple	last = sort->last[isnull];
	Size		size = IndexTupleSize(tuple);
	IndexTuple	copy;

	if (spool->nrecords > 0)
	{
		bool		has_null;
		int			order = la_build_tuple_compare(sort->key, last, tuple, &has_null);

		if (order > 0 ||
			(order == 0 && ItemPointerCompare(&last->t_tid, &tuple->t_tid) > 0))
			return false;
	}
	copy = la_build_record_tuple(la_build_spool_add(spool, 0, place,
													sizeof(LaRecord) + size +
													la_build_bytes_size(0)));
	la_build_record_copy(copy, tuple, size);
	la_build_record_bytes(copy)->length = 0;
	la_build_record_copy(last, tuple, size);
	return true;
}

/*
 * Adds an entry with its index tuple, unless that is too long.  It is made before
 * the key is, so that what is huge has been refused or compressed by then.  Its size
 * is aligned as core wants it (relies on _bt_buildadd() in nbtsort.c);
 * index_form_tuple() has done that.
 */
static void
add_tuple(LaSort *sort, uint64 place, const ItemPointerData *tid,
		  const Datum *values, const bool *isnull)
{
	const LaBuildKey *key = sort->key;
	Size		size = la_build_tuple_plain_size(key, values, isnull);
	Datum		stored[INDEX_MAX_KEYS];
	bool		stored_isnull[INDEX_MAX_KEYS];
	IndexTuple	formed = NULL;
	IndexTuple	tuple;

	MemoryContextReset(sort->tuple_context);
	if (size == 0 || size > BTMaxItemSize)
	{
		/* values that cannot just be copied, or are out of line */
		formed = index_form_tuple_context(key->tupdesc, values, isnull,
										  sort->tuple_context);
		size = IndexTupleSize(formed);
		if (size > BTMaxItemSize)
		{
			sort->reason = LA_REASON_ROW_SIZE;
			return;
		}
		index_deform_tuple(formed, key->tupdesc, stored, stored_isnull);
		values = stored;
	}

	if (sort->in_order)
	{
		if (formed == NULL)
		{
			formed = MemoryContextAlloc(sort->tuple_context, size);
			la_build_tuple_form(key, values, size, formed);
		}
		formed->t_tid = *tid;
		if (add_in_order(sort, formed, place, isnull[0]))
			return;
		make_keys(sort);
	}
	tuple = add_with_key(sort, values, isnull, place, size);
	if (formed != NULL)
		memcpy(tuple, formed, size);
	else
		la_build_tuple_form(key, values, size, tuple);
	tuple->t_tid = *tid;
}

/*
 * Adds an entry.  `alive` is false for a row that a unique index must
 * contain but not check.
 */
void
la_build_collect_add(LaSort *sort, const ItemPointerData *tid, const Datum *values,
					 const bool *isnull, bool alive)
{
	uint64		place = la_build_place_make(tid, alive);

	if (unlikely(sort->reason != LA_REASON_NONE))
		return;
	count_entry(sort, place);
	if (!sort->key->is_word)
		add_tuple(sort, place, tid, values, isnull);
	else if (isnull[0])
		la_build_spool_add(&sort->nulls, 0, place, sizeof(LaRecord));
	else
		add_record(sort, la_build_string_word_of_value(&sort->key->columns[0], values[0]),
				   place, sizeof(LaRecord));
}

/*
 * Adds live entries of a key of a fixed size (see LaBuildKey.fixed_size), none of
 * them NULL.
 */
void
la_build_collect_add_values(LaSort *sort, const Datum *values, const uint64 *places,
							int count)
{
	const LaBuildKey *key = sort->key;
	const LaKeyColumn *column = &key->columns[0];

	if (key->is_word)
	{
		/* this is la_build_string_word_of_value() */
		uint64		value_bits = la_build_string_value_bits(column);
		uint64		flipped_bits = la_build_string_word_of_value(column, 0);

		for (int i = 0; i < count; i++)
		{
			count_entry(sort, places[i]);
			add_record(sort, (values[i] & value_bits) ^ flipped_bits, places[i],
					   sizeof(LaRecord));
		}
		return;
	}
	for (int i = 0; i < count; i++)
	{
		LaRecord   *record = add_record(sort,
										la_build_string_fixed_word(column, values[i]),
										places[i],
										sizeof(LaRecord) + key->fixed_size);

		count_entry(sort, places[i]);
		la_build_tuple_form(key, &values[i], key->fixed_size,
							la_build_record_tuple(record));
		la_build_place_get_tid(places[i], &la_build_record_tuple(record)->t_tid);
	}
}

/*
 * Makes buckets for what has come and what is to come, and moves the former there.
 */
static void
begin_buckets(LaSort *sort, double fraction_done)
{
	double		more = 1 / Max(fraction_done, 0.001);
	double		wanted = Max(sort->spool.nbytes * more * 8 / sort->bytes,
							 sort->spool.nrecords * more / LA_BUCKET_ENTRIES);
	int64		limit = sort->pool.limit;

	sort->buckets = la_build_buckets_make(&sort->pool, sort->key->kind, &sort->sample, 0,
										  PG_UINT64_MAX, wanted);
	/* no early move to files, which would be one of many small pieces */
	sort->pool.limit = sort->pool.nused + sort->reserve;
	la_build_buckets_distribute(sort->buckets, &sort->spool, NULL, 0);
	sort->pool.limit = limit;
}

/*
 * Keeps to the memory that there is; to be called at least once for each page of the
 * table.  fraction_done tells how much of that has been read, for guessing how many
 * entries are to come.
 */
void
la_build_collect_limit_memory(LaSort *sort, double fraction_done)
{
	sort->fraction_done = Max(sort->fraction_done, fraction_done);
	if (sort->pool.nused >= sort->next_look && !sort->in_order)
	{
		sort->next_look = PG_INT64_MAX;
		if (sort->reason == LA_REASON_NONE &&
			la_build_look_is_poor(sort->key, &sort->spool, sort->bytes, fraction_done))
			sort->reason = LA_REASON_MEMORY;
	}
	if (sort->pool.nused + sort->reserve < sort->pool.limit)
		return;

	sort->next_look = PG_INT64_MAX; /* only at what has never been in files */
	la_build_spool_to_file(&sort->nulls);
	if (sort->buckets == NULL && (sort->in_order || sort->spool.ordered))
	{
		la_build_spool_to_file(&sort->spool);
		return;
	}
	if (sort->buckets == NULL)
		begin_buckets(sort, fraction_done);
	la_build_buckets_to_files(sort->buckets);
}

/*
 * Forgets all entries, because core builds the index: the disk is for its files.
 */
void
la_build_collect_discard(LaSort *sort)
{
	la_build_spool_discard(&sort->spool);
	la_build_spool_discard(&sort->nulls);
	for (int i = 0; sort->buckets != NULL && i < sort->buckets->count; i++)
		la_build_spool_discard(&sort->buckets->spools[i]);
	sort->buckets = NULL;
}
