/*-------------------------------------------------------------------------
 *
 * la_build_look.c
 *	  what one look at the entries of a spool tells
 *
 * The spool stays as it is.  One look at what is in a file costs a fraction of moving
 * it, and decides whether and by what it is moved.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "index_build/keys/la_build_prefix.h"
#include "index_build/keys/la_build_string.h"
#include "index_build/keys/la_build_tuple.h"
#include "index_build/sort/la_build_look.h"

/*
 * Whether the keys of a spool are in order: one look at what is in a file costs less
 * than to move it.
 */
bool
la_look_in_order(LaSpool *spool, const LaBuildKey *key)
{
	bool		in_order = spool->ordered;
	char	   *copy = palloc(INDEX_SIZE_MASK + 1 + la_bytes_size(LA_KEPT_BYTES));
	IndexTuple	before = NULL;
	uint64		word = 0;
	LaSpoolReader reader;
	LaRecord   *record;

	la_spool_look(spool, &reader);
	while (in_order && (record = la_spool_next(&reader)) != NULL)
	{
		IndexTuple	tuple = la_record_tuple(record);

		in_order = before == NULL || record->word > word ||
			la_key_compare_order(key, before, tuple) <= 0;
		word = record->word;
		before = tuple;
		if (reader.at == reader.end)
		{
			/* the next chunk of a file takes the place of this one */
			before = (IndexTuple) copy;
			memcpy(before, tuple, la_tuple_size(spool->kind, tuple));
		}
	}
	la_spool_look_end(&reader);
	pfree(copy);
	return in_order;
}

/*
 * Whether the strings of some keys were too long to be kept.
 */
bool
la_look_has_cut(LaSpool *spool, const LaBuildKey *key)
{
	LaSpoolReader reader;
	LaRecord   *record;
	bool		found = false;

	if (spool->kind != LA_RECORD_BYTES)
		return false;
	la_spool_look(spool, &reader);
	while (!found && (record = la_spool_next(&reader)) != NULL)
		found = la_key_is_cut(key, la_record_tuple(record));
	la_spool_look_end(&reader);
	return found;
}

/*
 * The next word in which the keys of records that agree in the word-th and in all before
 * it do not agree; 0 if their strings are equal.  *decompressed tells whether finding
 * out was dear.
 */
int
la_look_next_word(LaSpool *spool, const LaBuildKey *key, int word,
				  bool *decompressed)
{
	LaPrefix	prefix;
	LaSpoolReader reader;
	IndexTuple	first = NULL;
	LaRecord   *record;

	la_spool_look(spool, &reader);
	while ((record = la_spool_next(&reader)) != NULL)
	{
		IndexTuple	tuple = la_record_tuple(record);

		if (first == NULL)
		{
			/* the next chunk of a file takes the place of this one */
			first = palloc(la_tuple_size(spool->kind, tuple));
			memcpy(first, tuple, la_tuple_size(spool->kind, tuple));
			la_prefix_begin(&prefix, key, first);
			continue;
		}
		la_prefix_add(&prefix, tuple);
		if (prefix.length < 8 * (word + 2) && prefix.length < prefix.whole)
			break;				/* the next word is the one */
	}
	la_spool_look_end(&reader);
	la_prefix_end(&prefix);
	pfree(first);

	*decompressed = prefix.decompressed;
	return la_prefix_is_whole(&prefix) ? 0 : Max(word + 1, prefix.length / 8);
}

/*
 * Takes a sample of the words that the records carry, or if a key is given of the
 * word-th words of theirs, and finds their limits.
 */
void
la_look_sample(LaSpool *spool, const LaBuildKey *key, int word,
			   LaSample *sample, uint64 *low, uint64 *high)
{
	LaSpoolReader reader;
	LaRecord   *record;

	*low = PG_UINT64_MAX;
	*high = 0;
	la_spool_look(spool, &reader);
	while ((record = la_spool_next(&reader)) != NULL)
	{
		uint64		sampled = record->word;

		if (key != NULL)
			(void) la_key_next_word(key, la_record_tuple(record), word, &sampled);
		*low = Min(*low, sampled);
		*high = Max(*high, sampled);
		la_sample_add(sample, sampled);
	}
}
