/*-------------------------------------------------------------------------
 *
 * la_build_core_sort.c
 *	  sorts index entries by core's tuplesort
 *
 * For entries that words do not divide: see la_build_prospect.c for those that are
 * known early, la_build_drain.c for the others and la_build_in_order.c for those of
 * which no keys are made.  The tuplesort makes index tuples of
 * its own from the values, and gives them back in the index's order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/tuplesort.h"

#include "index_build/keys/la_build_string.h"
#include "index_build/sort/la_build_core_sort.h"

struct LaCoreSort
{
	LaBuildKey *key;
	Tuplesortstate *state;
	IndexTuple	next;			/* to be handed over; NULL at the end */
	IndexTuple	with_string;	/* room for any with an empty string, where
								 * strings are kept */
};

/*
 * Begins to sort entries of the index, using at most `bytes` of memory.
 * Uniqueness is checked when they are loaded, so not by the tuplesort.
 */
LaCoreSort *
la_core_sort_begin(Relation heap, LaBuildKey *key, int64 bytes)
{
	LaCoreSort *core = palloc0(sizeof(LaCoreSort));

	core->key = key;
	if (key->kind == LA_RECORD_BYTES)
		core->with_string = palloc0(INDEX_SIZE_MASK + 1 + la_bytes_size(0));
	core->state = tuplesort_begin_index_btree(heap, key->index,
											  false, false,
											  Max(bytes / 1024, 64), NULL,
											  TUPLESORT_NONE);
	return core;
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
 * Adds the entry of a row.
 */
void
la_core_sort_add(LaCoreSort *core, uint64 place, const Datum *values,
				 const bool *isnull)
{
	ItemPointerData tid;

	place_to_sorted_tid(place, &tid);
	tuplesort_putindextuplevalues(core->state, core->key->index, &tid,
								  values, isnull);
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
 * Adds all records of a spool, all of one part of the output (see la_build_output.h),
 * and empties it.
 */
void
la_core_sort_add_spool(LaCoreSort *core, LaSpool *spool, bool are_null)
{
	LaSpoolReader reader;
	LaRecord   *record;

	la_spool_read(spool, &reader, false);
	while ((record = la_spool_next(&reader)) != NULL)
	{
		Datum		values[INDEX_MAX_KEYS];
		bool		isnull[INDEX_MAX_KEYS];

		record_values(core->key, record, are_null, values, isnull);
		la_core_sort_add(core, record->place, values, isnull);
	}
}

/*
 * Hands over an index tuple of the tuplesort, in the form that spools of this index
 * have.  The word is that of all entries, or is to be made again.
 */
static void
put_next(LaCoreSort *core, LaOutput *output, uint64 place, bool make_word,
		 uint64 word)
{
	LaBuildKey *key = core->key;
	IndexTuple	tuple = core->next;
	LaRecord	record = {word, place};
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	if (key->kind == LA_RECORD_WORD)
	{
		index_deform_tuple(tuple, key->tupdesc, values, isnull);
		record.word = isnull[0] ? 0 :
			la_key_word_of_value(&key->columns[0], values[0]);
		output->add_words(output, &record, 1);
		return;
	}
	if (make_word)
	{
		index_deform_tuple(tuple, key->tupdesc, values, isnull);
		record.word = la_key_first_word(key, values, isnull);
	}
	if (key->kind == LA_RECORD_BYTES)
	{
		/* the tuplesort has not kept strings */
		memcpy(core->with_string, tuple, IndexTupleSize(tuple));
		tuple = core->with_string;
		memset(la_tuple_bytes(tuple), 0, la_bytes_size(0));
	}
	output->add_tuple(output, tuple, record.word, place);
}

/*
 * Sorts the entries; nothing may be added any more.
 */
void
la_core_sort_perform(LaCoreSort *core)
{
	tuplesort_performsort(core->state);
	core->next = tuplesort_getindextuple(core->state, true);
}

static bool
is_of_part(const LaBuildKey *key, IndexTuple tuple, bool are_null)
{
	bool		isnull;

	(void) index_getattr(tuple, 1, key->tupdesc, &isnull);
	return isnull == are_null;
}

/*
 * Hands the entries of a part of the output over.  Each has the given word, or if words
 * are to be made its own.
 */
void
la_core_sort_put_part(LaCoreSort *core, LaOutput *output, bool are_null,
					  bool make_words, uint64 word)
{
	while (core->next != NULL && is_of_part(core->key, core->next, are_null))
	{
		uint64		place = place_of_sorted_tid(&core->next->t_tid);

		la_place_get_tid(place, &core->next->t_tid);
		put_next(core, output, place, make_words, word);
		core->next = tuplesort_getindextuple(core->state, true);
	}
}

/*
 * Frees the sort, of which all entries have been handed over.
 */
void
la_core_sort_end(LaCoreSort *core)
{
	Assert(core->next == NULL);
	tuplesort_end(core->state);
	if (core->with_string != NULL)
		pfree(core->with_string);
	pfree(core);
}
