/*-------------------------------------------------------------------------
 *
 * la_build_collection.c
 *	  keeps index entries until all have come
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
 * When memory is full before the scan has ended, the buckets get files.  What
 * becomes of spool and buckets then is told in la_build_drain.c.  Entries that this
 * would be no good for go to core's sort instead (la_build_prospect.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "index_build/sort/la_build_collection.h"
#include "index_build/sort/la_build_prospect.h"

/*
 * Share of the memory that entries may take before their prospect is looked at for
 * the first time: until then little has been done in vain.  Arbitrary.
 */
#define FIRST_LOOK 0.125

static void look_at_prospect(LaCollection *entries, double fraction_done);
static void begin_buckets(LaCollection *entries, double fraction_done);
static void leave_share(LaCollection *entries);

/*
 * Chunks held in reserve, see la_buckets_most().
 */
static int64
reserve_of(int64 chunks)
{
	return Max(la_buckets_most(chunks, LA_MAX_BUCKETS),
			   2 * la_buckets_most(chunks, LA_MAX_FILE_BUCKETS));
}

static int64
sort_bytes(int64 bytes)
{
	return Max(bytes / 32, 2 * LA_CHUNK_SIZE);
}

/*
 * How many chunks can be filled with entries if there is so much memory.
 */
int64
la_collection_pool_chunks(int64 bytes)
{
	int64		chunks = la_pool_chunks(bytes - sort_bytes(bytes));

	return chunks - reserve_of(chunks);
}

/*
 * Prepares to keep the entries of an index, using at most `bytes` of memory,
 * in the current context.
 */
void
la_collection_begin(LaCollection *entries, Relation heap, LaBuildKey *key,
					int64 bytes, LaPoolShare *share)
{
	memset(entries, 0, sizeof(*entries));
	entries->heap = heap;
	entries->key = key;
	entries->context = CurrentMemoryContext;
	entries->bytes = bytes;
	entries->sort_bytes = sort_bytes(bytes);
	la_pool_init(&entries->pool, bytes - entries->sort_bytes, share);
	entries->reserve = reserve_of(entries->pool.limit);
	la_spool_init(&entries->spool, &entries->pool, key->kind);
	la_spool_init(&entries->nulls, &entries->pool, key->kind);
	la_spool_init(&entries->run, &entries->pool, key->kind);
	if (key->kind == LA_RECORD_BYTES)
		entries->kept = palloc0(la_bytes_size(LA_KEPT_BYTES));
	la_sample_begin(&entries->sample);
	entries->merged = share != NULL;
	/* entries are merged by words, and sort keys are not to be made twice */
	if (!key->is_word && !(entries->merged && key->kind == LA_RECORD_BYTES))
		entries->next_look = Max(entries->pool.limit * FIRST_LOOK, 1);
}

/*
 * Moves entries to files if memory is nearly full.  fraction_done tells how much of
 * the table has been read, for guessing how many entries are to come.
 */
void
la_collection_limit_memory(LaCollection *entries, double fraction_done)
{
	if (entries->next_look > 0 && entries->core == NULL &&
		!entries->without_keys && entries->pool.nused >= entries->next_look)
		look_at_prospect(entries, fraction_done);
	if (!la_pool_is_full(&entries->pool, entries->reserve))
		return;

	entries->next_look = 0;		/* only at what has never been in files */
	la_spool_to_file(&entries->nulls);
	la_spool_to_file(&entries->run);
	if (entries->core != NULL)
		return;
	if (entries->buckets == NULL &&
		(entries->without_keys || entries->spool.ordered))
		la_spool_to_file(&entries->spool);
	else
	{
		if (entries->buckets == NULL)
			begin_buckets(entries, fraction_done);
		la_buckets_to_files(entries->buckets);
	}
	if (entries->pool.share != NULL)
		leave_share(entries);
}

/*
 * Leaves the entries to core's sort if that will be faster.  They are looked at early,
 * and again when memory is full: rows may come in groups, or in order at first.
 */
static void
look_at_prospect(LaCollection *entries, double fraction_done)
{
	int64		when_full = entries->pool.limit - entries->reserve;

	entries->next_look = entries->next_look < when_full ? when_full : 0;
	if (la_prospect_is_poor(entries->key, &entries->spool, entries->bytes,
							fraction_done))
		la_collection_hand_to_core(entries);
}

/*
 * Hands what has come and what is to come to core's sort.  What entries occupy until
 * they are there is not for core, so they go through files unless it is little.
 */
void
la_collection_hand_to_core(LaCollection *entries)
{
	MemoryContext caller = MemoryContextSwitchTo(entries->context);
	int64		occupied = entries->pool.nallocated * LA_CHUNK_SIZE;

	if (entries->pool.share != NULL || entries->run.nrecords > 0 ||
		occupied > entries->bytes / 4)
	{
		la_spool_to_file(&entries->nulls);
		la_spool_to_file(&entries->spool);
		la_spool_to_file(&entries->run);
		if (entries->pool.share != NULL)
			leave_share(entries);
		la_pool_reset(&entries->pool, 0);
		occupied = entries->pool.limit * LA_CHUNK_SIZE;
	}
	entries->core = la_core_sort_begin(entries->heap, entries->key,
									   entries->bytes - occupied);
	la_core_sort_add_spool(entries->core, &entries->nulls, true);
	la_core_sort_add_spool(entries->core, &entries->spool, false);
	la_pool_reset(&entries->pool, 0);
	MemoryContextSwitchTo(caller);
}

/*
 * Makes buckets for what has come and what is to come, and moves the former there.
 */
static void
begin_buckets(LaCollection *entries, double fraction_done)
{
	double		more = 1 / Max(fraction_done, 0.001);
	double		wanted = Max(entries->spool.nbytes * more * 8 / entries->bytes,
							 entries->spool.nrecords * more / LA_BUCKET_ENTRIES);
	int64		limit = entries->pool.limit;

	entries->buckets = la_buckets_make(&entries->pool, entries->key->kind,
									   &entries->sample, 0, PG_UINT64_MAX,
									   wanted, LA_MAX_FILE_BUCKETS);
	/* no early move to files, which would be one of many small pieces */
	entries->pool.limit = entries->pool.nused + entries->reserve;
	la_buckets_distribute(entries->buckets, &entries->spool, NULL, 0);
	entries->pool.limit = limit;
}

/*
 * Goes on with the memory that is this process's own.
 */
static void
leave_share(LaCollection *entries)
{
	int64		limit = entries->pool.limit;

	la_pool_leave_share(&entries->pool, entries->reserve);
	entries->bytes -= (limit - entries->pool.limit) * LA_CHUNK_SIZE;
	entries->reserve = reserve_of(entries->pool.limit);
}
