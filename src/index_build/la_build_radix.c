/*-------------------------------------------------------------------------
 *
 * la_build_radix.c
 *	  sorts index entries by the words of their keys
 *
 * A stable radix sort, most significant digit first.  Each pass looks at as
 * many bits below the highest one that differs as give groups of a few
 * entries; small groups are finished by insertion.  Entries that agree in a
 * whole word are sorted by the next one, and by core's comparators when the
 * key has no more words but columns that have none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"

#include "index_build/la_build_radix.h"

/* Entries up to which insertion is used instead of another pass: arbitrary. */
#define INSERTION_ENTRIES 24

/* Bits of a digit: 2^11 counters of 4 bytes fit the L1 cache. */
#define MAX_DIGIT_BITS 11

/* Entries between two looks for interrupts; arbitrary, well below 1 ms. */
#define ENTRIES_PER_CHECK 65536

static bool ordered_by_word(const LaEntry *entries, int64 count,
							uint64 *low, uint64 *high);
static void sort_by_insertion(LaEntry *entries, int64 count);
static void sort_by_digit(LaRadix *radix, LaEntry *entries, LaEntry *copy,
						  int64 count, int word, uint64 low, uint64 high);
static void sort_ties(LaRadix *radix, LaEntry *entries, LaEntry *copy,
					  int64 count, int word);
static void sort_equal_words(LaRadix *radix, LaEntry *entries, LaEntry *copy,
							 int64 count, int word);
static int	compare_entries(const LaEntry *a, const LaEntry *b,
							const LaRadix *radix);

/* Comparison sort for keys without further words; it can be interrupted. */
#define ST_SORT sort_by_comparison
#define ST_ELEMENT_TYPE LaEntry
#define ST_COMPARE_ARG_TYPE const LaRadix
#define ST_COMPARE(a, b, arg) compare_entries(a, b, arg)
#define ST_CHECK_FOR_INTERRUPTS
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/*
 * Sorts entries that agree in all words before the word-th, which is the one
 * they carry.  `copy` has room for as many.
 */
void
la_radix_sort(LaRadix *radix, LaEntry *entries, LaEntry *copy, int64 count,
			  int word)
{
	uint64		low;
	uint64		high;

	if (count <= 1)
		return;
	if (count <= INSERTION_ENTRIES)
	{
		sort_by_insertion(entries, count);
		sort_ties(radix, entries, copy, count, word);
	}
	else if (ordered_by_word(entries, count, &low, &high))
		sort_ties(radix, entries, copy, count, word);
	else
		sort_by_digit(radix, entries, copy, count, word, low, high);
}

static bool
ordered_by_word(const LaEntry *entries, int64 count, uint64 *low, uint64 *high)
{
	bool		ordered = true;

	*low = *high = entries[0].word;
	for (int64 i = 1; i < count; i++)
	{
		uint64		word = entries[i].word;

		ordered &= entries[i - 1].word <= word;
		*low = Min(*low, word);
		*high = Max(*high, word);
	}
	return ordered;
}

static void
sort_by_insertion(LaEntry *entries, int64 count)
{
	for (int64 i = 1; i < count; i++)
	{
		LaEntry		entry = entries[i];
		int64		at = i;

		for (; at > 0 && entries[at - 1].word > entry.word; at--)
			entries[at] = entries[at - 1];
		entries[at] = entry;
	}
}

/*
 * One pass: groups the entries by a digit, then sorts each group.
 */
static void
sort_by_digit(LaRadix *radix, LaEntry *entries, LaEntry *copy, int64 count,
			  int word, uint64 low, uint64 high)
{
	int			width = pg_leftmost_one_pos64(high - low) + 1;
	int			bits = Min(pg_leftmost_one_pos64(count) - 2, MAX_DIGIT_BITS);
	int			shift = Max(width - bits, 0);
	int			groups = (int) ((high - low) >> shift) + 1;
	int64		ends[1 << MAX_DIGIT_BITS];
	int64		start = 0;

	memset(ends, 0, groups * sizeof(int64));
	for (int64 i = 0; i < count; i++)
	{
		if (i % ENTRIES_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		ends[(entries[i].word - low) >> shift]++;
	}
	for (int i = 0; i < groups; i++)
	{
		int64		size = ends[i];

		ends[i] = start;
		start += size;
	}
	for (int64 i = 0; i < count; i++)
	{
		if (i % ENTRIES_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		copy[ends[(entries[i].word - low) >> shift]++] = entries[i];
	}
	memcpy(entries, copy, count * sizeof(LaEntry));

	start = 0;
	for (int i = 0; i < groups; i++)
	{
		la_radix_sort(radix, entries + start, copy, ends[i] - start, word);
		start = ends[i];
	}
}

/*
 * Sorts the groups of equal words among entries that are in order of words.
 */
static void
sort_ties(LaRadix *radix, LaEntry *entries, LaEntry *copy, int64 count,
		  int word)
{
	int64		start = 0;

	if (!radix->has_tuples && !radix->places_disordered)
		return;
	for (int64 i = 1; i <= count; i++)
	{
		if (i < count && entries[i].word == entries[start].word)
			continue;
		if (i - start > 1)
			sort_equal_words(radix, entries + start, copy, i - start, word);
		start = i;
	}
}

static void
sort_equal_words(LaRadix *radix, LaEntry *entries, LaEntry *copy, int64 count,
				 int word)
{
	CHECK_FOR_INTERRUPTS();
	if (radix->first_word_only)
	{
		sort_by_comparison(entries, count, radix);
		return;
	}
	if (radix->has_tuples && radix->key->nencoded > 0)
	{
		bool		more = false;

		for (int64 i = 0; i < count; i++)
		{
			more = la_key_next_word(radix->key,
									la_record_tuple(entries[i].record),
									word + 1, &entries[i].word);
			if (!more)
				break;
			if (i % ENTRIES_PER_CHECK == 0)
				CHECK_FOR_INTERRUPTS();
		}
		if (more)
		{
			la_radix_sort(radix, entries, copy, count, word + 1);
			return;
		}
	}

	if (radix->places_disordered ||
		(radix->has_tuples && !la_key_is_complete(radix->key)))
		sort_by_comparison(entries, count, radix);
}

/*
 * Order of entries whose words are all equal.
 */
static int
compare_entries(const LaEntry *a, const LaEntry *b, const LaRadix *radix)
{
	if (radix->has_tuples)
	{
		int			order = la_key_compare_order(radix->key,
												 la_record_tuple(a->record),
												 la_record_tuple(b->record));

		if (order != 0)
			return order;
		return pg_cmp_u64(a->record->place, b->record->place);
	}
	return pg_cmp_u64(a->place, b->place);
}
