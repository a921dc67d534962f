/*-------------------------------------------------------------------------
 *
 * la_build_put.c
 *	  sorts the entries of one spool and hands them over
 *
 * As they are, sorted in memory, or sorted by core (la_build_core_sort.c), as
 * la_build_drain.c wants it.  In memory a stable radix sort looks at the words; entries whose
 * words are equal are sorted by the next word of their keys, and in the end
 * by core's comparators if the key has columns that have no words.  Equal
 * keys stay in the order in which they came, which is that of their heap
 * TIDs; if it is not (the rows of a HOT chain have the TID of its root),
 * they are sorted by TID (la_build_radix.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "index_build/sort/la_build_core_sort.h"
#include "index_build/sort/la_build_put.h"
#include "index_build/sort/la_build_radix.h"

/*
 * Records asked for ahead of the one being loaded: the time of one cache miss
 * is about that of loading eight.  Most span two cache lines, of 64 bytes.
 */
#define PREFETCH_RECORDS 8
#define PREFETCH_SECOND_LINE 56

static void put_entries(LaDrain *drain, const LaEntry *sorted, int64 count,
						const LaWordRange *range);

/*
 * The first word of a record in a range, of which it may carry a later one.
 */
static inline uint64
first_word_of(const LaWordRange *range, const LaRecord *record)
{
	return range->word > 0 ? range->first_word : record->word;
}

/*
 * Hands over the records of a spool in the order in which they are.
 */
void
la_put_as_it_is(LaDrain *drain, LaSpool *spool, const LaWordRange *range)
{
	LaOutput   *output = drain->output;
	LaSpoolReader reader;
	LaRecord   *record;

	la_spool_read(spool, &reader, false);
	if (spool->kind == LA_RECORD_WORD)
	{
		while (la_spool_next_chunk(&reader))
			output->add_words(output, (LaRecord *) reader.at,
							  (reader.end - reader.at) / sizeof(LaRecord));
		return;
	}
	while ((record = la_spool_next(&reader)) != NULL)
		output->add_tuple(output, la_record_tuple(record),
						  first_word_of(range, record), record->place);
}

/*
 * Sorts a spool in memory and hands its records over.  With index tuples the
 * chunks stay where they are and pointers are sorted; without, the records
 * themselves are.
 */
void
la_put_sorted(LaDrain *drain, LaSpool *spool, const LaWordRange *range)
{
	int64		count = 0;
	LaEntry    *entries = MemoryContextAllocHuge(CurrentMemoryContext,
												 spool->nrecords * 2 * sizeof(LaEntry));
	bool		has_tuples = spool->kind != LA_RECORD_WORD;
	LaRadix		radix = {drain->key, has_tuples, drain->entries->places_disordered};
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

	la_radix_sort(&radix, entries, entries + count, count, range->word);
	if (has_tuples)
		put_entries(drain, entries, count, range);
	else
		drain->output->add_words(drain->output, (LaRecord *) entries, count);
	la_spool_release(&reader);
	pfree(entries);
}

/*
 * Hands over sorted index tuples.  Their records are in the order of arrival: one
 * ahead is asked for.
 */
static void
put_entries(LaDrain *drain, const LaEntry *sorted, int64 count,
			const LaWordRange *range)
{
	LaOutput   *output = drain->output;

	for (int64 i = 0; i < count; i++)
	{
		LaRecord   *record = sorted[i].record;

		if (i + PREFETCH_RECORDS < count)
		{
			LaRecord   *ahead = sorted[i + PREFETCH_RECORDS].record;

			__builtin_prefetch(ahead);
			__builtin_prefetch((char *) ahead + PREFETCH_SECOND_LINE);
		}
		output->add_tuple(output, la_record_tuple(record),
						  first_word_of(range, record), record->place);
	}
}

/*
 * Sorts a spool by core's tuplesort and hands its records over.
 */
void
la_put_sorted_by_core(LaDrain *drain, LaSpool *spool, const LaWordRange *range,
					  bool equal_words)
{
	LaCollection *entries = drain->entries;
	LaCoreSort *core = la_core_sort_begin(entries->heap, entries->key,
										  entries->sort_bytes);
	bool		is_later = range->word > 0;
	uint64		word = is_later ? range->first_word : spool->first_word;

	la_core_sort_add_spool(core, spool, drain->are_null);
	la_core_sort_perform(core);
	la_core_sort_put_part(core, drain->output, drain->are_null,
						  !equal_words && !is_later, word);
	la_core_sort_end(core);
}
