/*-------------------------------------------------------------------------
 *
 * la_build_core_sort.c
 *	  sorts the entries of a spool by core's tuplesort, and hands them over
 *
 * For entries that words do not divide (see la_build_drain.c).  The tuplesort makes
 * index tuples of its own from the values, and gives them back in the index's order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/tuplesort.h"

#include "index_build/keys/la_build_string.h"
#include "index_build/sort/la_build_put.h"

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
 * The values of a record, of whose key the first column is NULL or not.
 */
static void
record_values(const LaBuildKey *key, const LaRecord *record, bool is_null,
			  Datum *values, bool *isnull)
{
	if (key->kind != LA_RECORD_WORD)
		index_deform_tuple(la_record_tuple(record), key->tupdesc, values, isnull);
	else
	{
		isnull[0] = is_null;
		values[0] = is_null ? (Datum) 0 :
			la_key_value_of_word(&key->columns[0], record->word);
	}
}

/*
 * Hands all records of a spool to the tuplesort, and empties it.
 */
static void
add_spool(Tuplesortstate *state, LaSpool *spool, const LaDrain *drain)
{
	LaSpoolReader reader;
	LaRecord   *record;

	la_spool_read(spool, &reader, false);
	while ((record = la_spool_next(&reader)) != NULL)
	{
		Datum		values[INDEX_MAX_KEYS];
		bool		isnull[INDEX_MAX_KEYS];
		ItemPointerData tid;

		record_values(drain->key, record, drain->are_null, values, isnull);
		place_to_sorted_tid(record->place, &tid);
		tuplesort_putindextuplevalues(state, drain->key->index, &tid, values,
									  isnull);
	}
}

/*
 * Hands over an index tuple of the tuplesort, in the form that spools of this index
 * have: `room` is for any with an empty string, which the tuplesort has not kept.
 */
static void
put(LaDrain *drain, IndexTuple tuple, bool make_word, uint64 word,
	IndexTuple room)
{
	LaBuildKey *key = drain->entries->key;
	LaOutput   *output = drain->output;
	LaRecord	record = {word, place_of_sorted_tid(&tuple->t_tid)};
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	if (make_word)
	{
		index_deform_tuple(tuple, key->tupdesc, values, isnull);
		record.word = la_key_first_word(key, values, isnull);
	}
	if (key->kind == LA_RECORD_WORD)
	{
		output->add_words(output, &record, 1);
		return;
	}
	la_place_get_tid(record.place, &tuple->t_tid);
	if (key->kind == LA_RECORD_BYTES)
	{
		memcpy(room, tuple, IndexTupleSize(tuple));
		tuple = room;
		memset(la_tuple_bytes(tuple), 0, la_bytes_size(0));
	}
	output->add_tuple(output, tuple, record.word, record.place);
}

/*
 * Sorts a spool and hands its records over.  Uniqueness is checked when they are
 * loaded, so not by the tuplesort.
 */
void
la_put_sorted_by_core(LaDrain *drain, LaSpool *spool, const LaWordRange *range)
{
	LaCollection *entries = drain->entries;
	bool		is_later = range->word > 0;
	bool		make_words = range->low < range->high && !is_later;
	uint64		word = is_later ? range->first_word : spool->first_word;
	IndexTuple	room = palloc(INDEX_SIZE_MASK + 1 + la_bytes_size(0));
	IndexTuple	tuple;
	Tuplesortstate *state =
		tuplesort_begin_index_btree(entries->heap, drain->key->index, false, false,
									Max(entries->sort_bytes / 1024, 64), NULL,
									TUPLESORT_NONE);

	add_spool(state, spool, drain);
	tuplesort_performsort(state);
	while ((tuple = tuplesort_getindextuple(state, true)) != NULL)
		put(drain, tuple, make_words, word, room);
	tuplesort_end(state);
	pfree(room);
}
