/*-------------------------------------------------------------------------
 *
 * la_build_radix.c
 *	  sorts index entries by the words of their keys
 *
 * A stable radix sort, most significant digit first.  Each pass looks at as
 * many bits below the highest one that differs as give groups of a few
 * entries; small groups are finished by insertion.  Entries that agree in a
 * whole word are sorted by the next word in which any two of them differ, and
 * by core's comparators when the key has no more words but columns that have
 * none.
 *
 * Groups that wait to be sorted are in a list, not on the stack: the data decide
 * how deep they are nested.  They also decide how many words there are to look at, so
 * that after a few of these (MAX_DESCENTS) what is still equal is sorted by comparison.
 * That bounds the work for any keys to a few passes and what core would do.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"

#include "index_build/keys/la_build_string.h"
#include "index_build/keys/la_build_tuple.h"
#include "index_build/sort/la_build_radix.h"

/* Entries up to which insertion is used instead of another pass: arbitrary. */
#define INSERTION_ENTRIES 24

/* Bits of a digit: 2^11 counters of 4 bytes fit the L1 cache. */
#define MAX_DIGIT_BITS 11

/* Entries between two looks for interrupts; arbitrary, well below 1 ms. */
#define ENTRIES_PER_CHECK 65536

/*
 * Words after the first by which an entry is sorted before comparison takes over.
 * Arbitrary: each word costs about as much as two comparisons of a binary search.
 */
#define MAX_DESCENTS 8

/* Entries [start, start + count) agree in all words before the word-th. */
typedef struct Group
{
	int64		start;
	int64		count;
	int			word;			/* which they carry */
	int			ndescents;
} Group;

StaticAssertDecl(2 * sizeof(Group) <= LA_RADIX_GROUP_BYTES * (INSERTION_ENTRIES + 1),
				 "waiting groups are larger than what is reserved for them");

typedef struct RadixSort
{
	const LaRadix *radix;
	LaEntry    *entries;
	LaEntry    *copy;			/* room for as many */

	/* Waiting groups: disjoint, each of more than INSERTION_ENTRIES. */
	Group	   *groups;
	int			ngroups;
	int			room;
} RadixSort;

static void sort_ties(RadixSort *sort, const Group *group);

/*
 * Order of entries whose words are all equal.
 */
static int
compare_entries(const LaEntry *a, const LaEntry *b, const LaRadix *radix)
{
	if (radix->has_tuples)
	{
		int			order = la_build_tuple_compare_order(radix->key,
														 la_build_record_tuple(a->record),
														 la_build_record_tuple(b->record));

		if (order != 0)
			return order;
		return pg_cmp_u64(a->record->place, b->record->place);
	}
	return pg_cmp_u64(a->place, b->place);
}

/* Comparison sort for keys without further words; it can be interrupted. */
#define ST_SORT sort_by_comparison
#define ST_ELEMENT_TYPE LaEntry
#define ST_COMPARE_ARG_TYPE const LaRadix
#define ST_COMPARE(a, b, arg) compare_entries(a, b, arg)
#define ST_CHECK_FOR_INTERRUPTS
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

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
 * Has a group sorted: at once if it is small, which nests no deeper than
 * MAX_DESCENTS, else later.
 */
static void
add_group(RadixSort *sort, int64 start, int64 count, int word, int ndescents)
{
	Group		group = {start, count, word, ndescents};

	if (count <= 1)
		return;
	if (count <= INSERTION_ENTRIES)
	{
		sort_by_insertion(sort->entries + start, count);
		sort_ties(sort, &group);
		return;
	}
	if (sort->ngroups == sort->room)
	{
		sort->room *= 2;
		sort->groups = repalloc_huge(sort->groups, sort->room * sizeof(Group));
	}
	sort->groups[sort->ngroups++] = group;
}

/*
 * Has the entries of a group carry its word, and tells whether they differ in it.  False
 * if their strings end before it.
 */
static bool
load_word(RadixSort *sort, const Group *group, bool *differ)
{
	LaEntry    *entries = sort->entries + group->start;

	*differ = false;
	for (int64 i = 0; i < group->count; i++)
	{
		/* a word of a text that is compressed may take long */
		CHECK_FOR_INTERRUPTS();
		if (!la_build_string_next_word(sort->radix->key,
									   la_build_record_tuple(entries[i].record),
									   group->word, &entries[i].word))
		{
			*differ = false;
			return false;
		}
		*differ |= entries[i].word != entries[0].word;
	}
	return true;
}

/*
 * Sorts entries that agree so far, up to and with the word of the group: by the next
 * word in which any two of them differ, or by comparison.
 */
static void
sort_equal_words(RadixSort *sort, Group group)
{
	const LaRadix *radix = sort->radix;
	LaEntry    *entries = sort->entries + group.start;

	CHECK_FOR_INTERRUPTS();
	if (radix->has_tuples && radix->key->nencoded > 0 &&
		group.ndescents++ < MAX_DESCENTS)
	{
		bool		differ;

		group.word++;
		if (!load_word(sort, &group, &differ))
		{
			/* the strings are equal */
			if (!radix->places_disordered && la_build_key_is_complete(radix->key))
				return;
		}
		else if (!differ)
		{
			IndexTuple	first = la_build_record_tuple(entries[0].record);
			int			next = PG_INT32_MAX;

			for (int64 i = 1; i < group.count && next > group.word + 1; i++)
			{
				CHECK_FOR_INTERRUPTS();
				next = la_build_string_parting_word(radix->key, first,
													la_build_record_tuple(entries[i].record),
													group.word + 1, next);
			}
			differ = next < PG_INT32_MAX;
			group.word = next;
			if (differ)
				(void) load_word(sort, &group, &differ);
		}
		if (differ)
		{
			add_group(sort, group.start, group.count, group.word,
					  group.ndescents);
			return;
		}
	}
	sort_by_comparison(entries, group.count, radix);
}

/*
 * Sorts those with equal words among the entries of a group that are in order of
 * words.
 */
static void
sort_ties(RadixSort *sort, const Group *group)
{
	const LaEntry *entries = sort->entries + group->start;
	int64		start = 0;

	if (!sort->radix->has_tuples && !sort->radix->places_disordered)
		return;
	for (int64 i = 1; i <= group->count; i++)
	{
		if (i < group->count && entries[i].word == entries[start].word)
			continue;
		if (i - start > 1)
		{
			Group		ties = {group->start + start, i - start, group->word,
			group->ndescents};

			sort_equal_words(sort, ties);
		}
		start = i;
	}
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

/*
 * One pass: groups the entries by a digit, and has each of these groups sorted.
 */
static void
sort_by_digit(RadixSort *sort, const Group *group, uint64 low, uint64 high)
{
	LaEntry    *entries = sort->entries + group->start;
	int64		count = group->count;
	int			width = pg_leftmost_one_pos64(high - low) + 1;
	int			bits = Min(pg_leftmost_one_pos64(count) - 2, MAX_DIGIT_BITS);
	int			shift = Max(width - bits, 0);
	int			ndigits = (int) ((high - low) >> shift) + 1;
	int64		ends[1 << MAX_DIGIT_BITS];
	int64		start = 0;

	memset(ends, 0, ndigits * sizeof(int64));
	for (int64 i = 0; i < count; i++)
	{
		if (i % ENTRIES_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		ends[(entries[i].word - low) >> shift]++;
	}
	for (int i = 0; i < ndigits; i++)
	{
		int64		size = ends[i];

		ends[i] = start;
		start += size;
	}
	for (int64 i = 0; i < count; i++)
	{
		if (i % ENTRIES_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		sort->copy[ends[(entries[i].word - low) >> shift]++] = entries[i];
	}
	memcpy(entries, sort->copy, count * sizeof(LaEntry));

	start = 0;
	for (int i = 0; i < ndigits; i++)
	{
		add_group(sort, group->start + start, ends[i] - start, group->word,
				  group->ndescents);
		start = ends[i];
	}
}

/*
 * Sorts entries that agree in all words before the word-th, which is the one
 * they carry.  `copy` has room for as many.
 */
void
la_build_radix_sort(const LaRadix *radix, LaEntry *entries, LaEntry *copy,
					int64 count, int word)
{
	RadixSort	sort = {radix, entries, copy};

	sort.room = 64;
	sort.groups = palloc(sort.room * sizeof(Group));
	add_group(&sort, 0, count, word, 0);
	while (sort.ngroups > 0)
	{
		Group		group = sort.groups[--sort.ngroups];
		uint64		low;
		uint64		high;

		if (ordered_by_word(entries + group.start, group.count, &low, &high))
			sort_ties(&sort, &group);
		else
			sort_by_digit(&sort, &group, low, high);
	}
	pfree(sort.groups);
}
