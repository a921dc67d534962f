/*-------------------------------------------------------------------------
 *
 * la_build_look.c
 *	  what one look at the entries of a spool tells
 *
 * The spool stays as it is.  One look at what is in a file costs a fraction of moving
 * it, and decides whether and by what it is moved.
 *
 * Where memory does not hold all entries, they are written to the files of buckets,
 * and what is still too large then is written again.  That is faster than core's
 * sort, which writes everything once and merges it, as long as little is written
 * more than twice.  It is not so for keys that differ in many words by a little
 * each, such as those of many columns of two values: each pass divides the entries by
 * two.  That is seen in the entries that come first (la_build_look_is_poor()).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"

#include "index_build/keys/la_build_string.h"
#include "index_build/keys/la_build_tuple.h"
#include "index_build/sort/la_build_look.h"
#include "index_build/sort/la_build_radix.h"

/* Most entries of which it is foretold: arbitrary, takes less than a millisecond. */
#define MOST_ENTRIES 1024

/* Words by which they may be distributed, and the share that may need more. */
#define MOST_WORDS 2
#define MOST_LEFT 0.25

/*
 * Whether the keys of a spool are in order.
 */
bool
la_build_look_in_order(LaSpool *spool, const LaBuildKey *key)
{
	bool		in_order = spool->ordered;
	char	   *copy = palloc(INDEX_SIZE_MASK + 1 + la_build_bytes_size(LA_KEPT_BYTES));
	IndexTuple	before = NULL;
	uint64		word = 0;
	LaSpoolReader reader;
	LaRecord   *record;

	la_build_spool_look(spool, &reader);
	while (in_order && (record = la_build_spool_next(&reader)) != NULL)
	{
		IndexTuple	tuple = la_build_record_tuple(record);

		in_order = before == NULL || record->word > word ||
			la_build_tuple_compare_order(key, before, tuple) <= 0;
		word = record->word;
		before = tuple;
		if (reader.at == reader.end)
		{
			/* the next chunk of a file takes the place of this one */
			before = (IndexTuple) copy;
			memcpy(before, tuple, la_build_record_tuple_size(spool->kind, tuple));
		}
	}
	la_build_spool_look_end(&reader);
	pfree(copy);
	return in_order;
}

/*
 * The next word in which the keys of records that agree in the word-th and in all before
 * it do not agree; LA_NO_WORD if there is none that is found quickly.
 */
int
la_build_look_next_word(LaSpool *spool, const LaBuildKey *key, int word)
{
	char	   *copy = palloc(INDEX_SIZE_MASK + 1 + la_build_bytes_size(LA_KEPT_BYTES));
	IndexTuple	first = NULL;
	int			next = LA_NO_WORD;
	LaSpoolReader reader;
	LaRecord   *record;

	la_build_spool_look(spool, &reader);
	while (next > word + 1 && (record = la_build_spool_next(&reader)) != NULL)
	{
		IndexTuple	tuple = la_build_record_tuple(record);

		if (first != NULL)
			next = la_build_string_parting_word(key, first, tuple, word + 1, next);
		else
		{
			/* the next chunk of a file takes the place of this one */
			first = (IndexTuple) copy;
			memcpy(first, tuple, la_build_record_tuple_size(spool->kind, tuple));
		}
	}
	la_build_spool_look_end(&reader);
	pfree(copy);
	return next;
}

/*
 * Takes a sample of the words that the records carry, or if a key is given of the
 * word-th words of theirs, and finds their limits.
 */
void
la_build_look_sample(LaSpool *spool, const LaBuildKey *key, int word,
					 LaSample *sample, uint64 *low, uint64 *high)
{
	LaSpoolReader reader;
	LaRecord   *record;

	*low = PG_UINT64_MAX;
	*high = 0;
	la_build_spool_look(spool, &reader);
	while ((record = la_build_spool_next(&reader)) != NULL)
	{
		uint64		sampled = record->word;

		if (key != NULL)
			(void) la_build_string_next_word(key, la_build_record_tuple(record), word,
											 &sampled);
		*low = Min(*low, sampled);
		*high = Max(*high, sampled);
		la_build_sample_add(sample, sampled);
	}
}

/*
 * Whether entries that agree so far are in order as they came: then nothing needs to
 * be sorted.
 */
static bool
in_order(const LaBuildKey *key, const LaEntry *entries, int count)
{
	for (int i = 1; i < count; i++)
	{
		if (entries[i].word < entries[i - 1].word ||
			(entries[i].word == entries[i - 1].word &&
			 la_build_tuple_compare_order(key,
										  la_build_record_tuple(entries[i - 1].record),
										  la_build_record_tuple(entries[i].record)) > 0))
			return false;
	}
	return true;
}

/*
 * By word; those with equal words as they came.
 */
static int
compare_by_word(const void *a, const void *b)
{
	const LaEntry *first = a;
	const LaEntry *second = b;
	int			order = pg_cmp_u64(first->word, second->word);

	return order != 0 ? order :
		pg_cmp_u64(first->record->place, second->record->place);
}

/*
 * How many of the entries, which agree in all words before the word-th, which they
 * carry, are in groups of more than `fitting`, and not in order, once they have been
 * distributed by `nwords` words in which they differ.  Nests as deep as that.
 */
static int
count_left(const LaBuildKey *key, LaEntry *entries, int count, int fitting,
		   int word, int nwords)
{
	int			left = 0;
	int			size;

	qsort(entries, count, sizeof(LaEntry), compare_by_word);
	for (LaEntry *group = entries; group < entries + count; group += size)
	{
		IndexTuple	first = la_build_record_tuple(group->record);
		int			next = LA_NO_WORD;

		for (size = 1; group + size < entries + count &&
			 group[size].word == group->word; size++)
			;
		if (size <= fitting || in_order(key, group, size))
			continue;
		if (nwords > 1 && key->nencoded > 0)
		{
			for (int i = 1; i < size; i++)
				next = la_build_string_parting_word(key, first,
													la_build_record_tuple(group[i].record),
													word + 1, next);
		}
		if (next == LA_NO_WORD)
		{
			left += size;
			continue;
		}
		for (int i = 0; i < size; i++)
			(void) la_build_string_next_word(key, la_build_record_tuple(group[i].record),
											 next,
											 &group[i].word);
		left += count_left(key, group, size, fitting, next, nwords - 1);
	}
	return left;
}

/*
 * Whether words hardly divide the entries of a spool, all of them still in memory, and
 * memory of so many bytes will not hold those to come.  fraction_done tells how much of
 * the table has been read.
 */
bool
la_build_look_is_poor(const LaBuildKey *key, LaSpool *spool, int64 bytes,
					  double fraction_done)
{
	double		expected = (spool->nbytes + la_build_radix_memory(spool->nrecords)) /
		Max(fraction_done, 0.001);
	int64		step = spool->nrecords / MOST_ENTRIES + 1;
	int64		position = 0;
	int			count = 0;
	bool		poor;
	LaEntry    *entries;
	LaSpoolReader reader;
	LaRecord   *record;

	if (expected <= bytes)
		return false;
	entries = palloc(MOST_ENTRIES * sizeof(LaEntry));
	la_build_spool_look(spool, &reader);
	while ((record = la_build_spool_next(&reader)) != NULL)
	{
		if (position++ % step != 0)
			continue;
		entries[count].word = record->word;
		entries[count++].record = record;
	}
	la_build_spool_look_end(&reader);
	/* half of the memory is for sorting the entries that the other half holds */
	poor = !in_order(key, entries, count) &&
		count_left(key, entries, count, Max(count * (bytes / 2) / expected, 8), 0,
				   MOST_WORDS) > count * MOST_LEFT;
	pfree(entries);
	return poor;
}
