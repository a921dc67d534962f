/*-------------------------------------------------------------------------
 *
 * la_build_put.c
 *	  sorts the entries of one spool and hands them over
 *
 * As they are, sorted in memory, or sorted by core, as la_build_drain.c wants it.
 * In memory a radix sort looks at the words (la_build_radix.c).  Equal keys stay
 * in the order in which they came, which is that of their heap TIDs; if it is not
 * (the rows of a HOT chain have the TID of its root), they are sorted by TID.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"

#include "index_build/keys/la_build_string.h"
#include "index_build/sort/la_build_put.h"
#include "index_build/sort/la_build_radix.h"

/*
 * Records asked for ahead of the one being loaded: the time of one cache miss
 * is about that of loading eight.  Most span two cache lines, of 64 bytes.
 */
#define PREFETCH_RECORDS 8
#define PREFETCH_SECOND_LINE 56

/*
 * Hands over a record with its index tuple.  It may carry a later word of a range
 * than the first.
 */
static inline void
put_tuple(LaOutput *output, LaRecord *record, const LaWordRange *range)
{
	output->add_tuple(output, la_build_record_tuple(record),
					  range->word > 0 ? range->first_word : record->word,
					  record->place);
}

/*
 * Hands over the records of a spool in the order in which they are.
 */
void
la_build_put_as_it_is(LaDrain *drain, LaSpool *spool, const LaWordRange *range)
{
	LaOutput   *output = drain->output;
	LaSpoolReader reader;
	LaRecord   *record;

	la_build_spool_read(spool, &reader, false);
	if (spool->kind == LA_RECORD_WORD)
	{
		while (la_build_spool_next_chunk(&reader))
			output->add_words(output, (LaRecord *) reader.at,
							  (reader.end - reader.at) / sizeof(LaRecord));
		return;
	}
	while ((record = la_build_spool_next(&reader)) != NULL)
		put_tuple(output, record, range);
}

/*
 * Sorts a spool in memory and hands its records over.  With index tuples the
 * chunks stay where they are and pointers are sorted; without, the records
 * themselves are.
 */
void
la_build_put_sorted(LaDrain *drain, LaSpool *spool, const LaWordRange *range)
{
	LaSort	   *sort = drain->sort;
	LaOutput   *output = drain->output;
	bool		has_tuples = spool->kind != LA_RECORD_WORD;
	LaRadix		radix = {sort->key, has_tuples, sort->places_disordered};
	Size		size = spool->nrecords * 2 * sizeof(LaEntry);

	/* of a round size, so that the next one finds room where this one was */
	Size		room = Max(Min(pg_nextpower2_64(size), sort->sort_bytes), size);
	LaEntry    *entries = MemoryContextAllocHuge(CurrentMemoryContext, room);
	int64		count = 0;
	LaSpoolReader reader;
	LaRecord   *record;

	la_build_spool_read(spool, &reader, has_tuples);
	while ((record = la_build_spool_next(&reader)) != NULL)
	{
		entries[count].word = record->word;
		if (has_tuples)
			entries[count].record = record;
		else
			entries[count].place = record->place;
		count++;
	}
	Assert(count == spool->nrecords);

	la_build_radix_sort(&radix, entries, entries + count, count, range->word);
	if (!has_tuples)
		output->add_words(output, (LaRecord *) entries, count);
	for (int64 i = 0; has_tuples && i < count; i++)
	{
		if (i + PREFETCH_RECORDS < count)
		{
			char	   *ahead = (char *) entries[i + PREFETCH_RECORDS].record;

			__builtin_prefetch(ahead);
			__builtin_prefetch(ahead + PREFETCH_SECOND_LINE);
		}
		put_tuple(output, entries[i].record, range);
	}
	la_build_spool_release(&reader);
	pfree(entries);
}

/*
 * Core's tuplesort keeps nothing of a place but a TID (relies on
 * tuplesort_putindextuplevalues() in tuplesortvariants.c).  The last bit of the
 * place, which tells whether the row is dead, is therefore made part of the
 * offset, of which half of the bits are in use: the order stays the same.
 */
static void
place_to_sorted_tid(uint64 place, ItemPointer tid)
{
	StaticAssertStmt(2 * MaxOffsetNumber + 1 <= PG_UINT16_MAX,
					 "offset and last bit must fit");
	ItemPointerSet(tid, (BlockNumber) (place >> 17), (OffsetNumber) place);
}

static uint64
place_of_sorted_tid(const ItemPointerData *tid)
{
	return ((uint64) ItemPointerGetBlockNumber(tid) << 17) |
		ItemPointerGetOffsetNumber(tid);
}

/*
 * Hands the records of a spool to a tuplesort.
 */
static void
add_spool(Tuplesortstate *state, LaDrain *drain, LaSpool *spool)
{
	const LaBuildKey *key = drain->sort->key;
	LaSpoolReader reader;
	LaRecord   *record;

	la_build_spool_read(spool, &reader, false);
	while ((record = la_build_spool_next(&reader)) != NULL)
	{
		Datum		values[INDEX_MAX_KEYS];
		bool		isnull[INDEX_MAX_KEYS];
		ItemPointerData tid;

		if (key->kind != LA_RECORD_WORD)
			index_deform_tuple(la_build_record_tuple(record), key->tupdesc, values,
							   isnull);
		else
		{
			isnull[0] = drain->are_null;
			values[0] = isnull[0] ? (Datum) 0 :
				la_build_string_value_of_word(&key->columns[0], record->word);
		}
		place_to_sorted_tid(record->place, &tid);
		tuplesort_putindextuplevalues(state, key->index, &tid, values, isnull);
	}
}

/*
 * Hands over an index tuple of the tuplesort, in the form that spools of this index
 * have: `room` is for any with an empty string.  The first word is that of all
 * entries, or is made again.
 */
static void
put_sorted_tuple(LaDrain *drain, IndexTuple tuple, bool make_word, uint64 word,
				 IndexTuple room)
{
	LaBuildKey *key = drain->sort->key;
	LaOutput   *output = drain->output;
	LaRecord	record = {word, place_of_sorted_tid(&tuple->t_tid)};
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	index_deform_tuple(tuple, key->tupdesc, values, isnull);
	if (key->kind == LA_RECORD_WORD)
	{
		if (!isnull[0])
			record.word = la_build_string_word_of_value(&key->columns[0], values[0]);
		output->add_words(output, &record, 1);
		return;
	}
	if (make_word)
		record.word = la_build_string_first_word(key, values, isnull);
	la_build_place_get_tid(record.place, &tuple->t_tid);
	if (key->kind == LA_RECORD_BYTES)
	{
		/* the tuplesort has not kept strings */
		memcpy(room, tuple, IndexTupleSize(tuple));
		tuple = room;
		memset(la_build_record_bytes(tuple), 0, la_build_bytes_size(0));
	}
	output->add_tuple(output, tuple, record.word, record.place);
}

/*
 * Sorts a spool by core's tuplesort, which makes index tuples of its own, and hands
 * its records over.  Uniqueness is checked when they are loaded, so not here.  The
 * memory for sorting is what chunks beyond the limit leave of it.
 */
void
la_build_put_sorted_by_core(LaDrain *drain, LaSpool *spool, const LaWordRange *range)
{
	LaSort	   *sort = drain->sort;
	bool		make_words = range->word == 0 && range->low < range->high;
	int64		beyond = Max(sort->pool.nallocated - sort->pool.limit, 0);
	int64		bytes = sort->sort_bytes - beyond * LA_CHUNK_SIZE;
	uint64		word = range->word > 0 ? range->first_word : spool->first_word;
	IndexTuple	room = palloc(INDEX_SIZE_MASK + 1 + la_build_bytes_size(0));
	IndexTuple	tuple;
	Tuplesortstate *state =
		tuplesort_begin_index_btree(sort->heap, sort->key->index, false, false,
									Max(bytes / 1024, 64), NULL,
									TUPLESORT_NONE);

	add_spool(state, drain, spool);
	tuplesort_performsort(state);
	while ((tuple = tuplesort_getindextuple(state, true)) != NULL)
		put_sorted_tuple(drain, tuple, make_words, word, room);
	tuplesort_end(state);
	pfree(room);
}
