/*-------------------------------------------------------------------------
 *
 * la_build_prospect.c
 *	  tells early whether distributing index entries by words will be of use
 *
 * Where memory does not hold all entries, they are written to the files of buckets,
 * and what is still too large then is written again.  That is faster than core's
 * sort, which writes everything once and merges it, as long as little is written
 * more than twice.  There are two kinds of keys with which that is not so:
 *
 *	- Keys that differ in many words by a little each, such as those of many columns
 *	  of two values: each pass divides the entries by two.
 *
 *	- Keys whose first words go up or down with the rows: what has come so far does
 *	  not foretell what will come, and most of that goes into one bucket.
 *
 * Both can be seen in the entries that come first.  Core's sort then gets them all
 * (la_build_core_sort.c), and hardly anything has been done in vain.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"

#include "index_build/keys/la_build_prefix.h"
#include "index_build/keys/la_build_string.h"
#include "index_build/keys/la_build_tuple.h"
#include "index_build/sort/la_build_bucket.h"
#include "index_build/sort/la_build_prospect.h"
#include "index_build/sort/la_build_radix.h"

/* Most entries that are looked at: arbitrary, takes less than a millisecond. */
#define MOST_ENTRIES 1024

/*
 * Words by which an entry may be distributed, with few buckets and with enough: each takes
 * a pass, or as many as there are buckets too few.
 */
#define FEWEST_WORDS 1
#define MOST_WORDS 2

/* Share of the entries that may need more than these.  Arbitrary. */
#define MOST_LEFT 0.25

/*
 * Share of the later half of entries that is beyond nearly all of the earlier half
 * if words go with the rows: at random it is a tenth.  Arbitrary within that.
 */
#define FEWEST_BEYOND 0.5

/*
 * Buckets that make a second pass over everything faster than core's sort all the same.
 * Arbitrary between those of 1 MB, 4, and of 4 MB: a million rows nearly in order took 0.4
 * to 0.9 times core's time with the latter.
 */
#define ENOUGH_BUCKETS 8

typedef struct Prospect
{
	const LaBuildKey *key;
	bool		ordered;		/* the words of all entries */
	bool		few_buckets;
	int			fitting;		/* as many entries are a group that will fit
								 * into memory */
	LaEntry		entries[MOST_ENTRIES];
} Prospect;

static int	take_entries(Prospect *prospect, LaSpool *spool);
static bool in_order(const Prospect *prospect, const LaEntry *entries, int count);
static bool goes_with_rows(const Prospect *prospect, int count);
static int	count_left(const Prospect *prospect, LaEntry *entries, int count,
					   int nwords);
static bool take_next_words(const Prospect *prospect, LaEntry *entries, int count);
static int	compare_by_word(const void *a, const void *b);

/*
 * Whether core's sort will be faster with the entries of a spool, all of them still in
 * memory, and with those to come, if there is so much memory in bytes.  fraction_done
 * tells how much of the table has been read.
 */
bool
la_prospect_is_poor(const LaBuildKey *key, LaSpool *spool, int64 bytes,
					double fraction_done)
{
	double		expected = (spool->nbytes + la_radix_memory(spool->nrecords)) /
		Max(fraction_done, 0.001);
	bool		poor = false;
	Prospect   *prospect;
	int			count;

	if (expected <= bytes)
		return false;
	prospect = palloc(sizeof(Prospect));
	prospect->key = key;
	prospect->ordered = spool->ordered;
	prospect->few_buckets =
		la_buckets_most(la_pool_chunks(bytes / 2), LA_MAX_FILE_BUCKETS) < ENOUGH_BUCKETS;
	count = take_entries(prospect, spool);
	/* half of the memory is for sorting the entries that the other half holds */
	prospect->fitting = Max(count * (bytes / 2) / expected, 8);
	if (!in_order(prospect, prospect->entries, count))
		poor = goes_with_rows(prospect, count) ||
			count_left(prospect, prospect->entries, count,
					   prospect->few_buckets ? FEWEST_WORDS : MOST_WORDS) >
			count * MOST_LEFT;
	pfree(prospect);
	return poor;
}

/*
 * Takes entries from all of a spool that is in memory, in the order in which they
 * came.
 */
static int
take_entries(Prospect *prospect, LaSpool *spool)
{
	int64		step = spool->nrecords / MOST_ENTRIES + 1;
	int64		position = 0;
	int			count = 0;
	LaSpoolReader reader;
	LaRecord   *record;

	la_spool_look(spool, &reader);
	while ((record = la_spool_next(&reader)) != NULL)
	{
		if (position++ % step != 0)
			continue;
		prospect->entries[count].word = record->word;
		prospect->entries[count++].record = record;
	}
	la_spool_look_end(&reader);
	return count;
}

/*
 * Whether entries are in order as they came: then nothing needs to be sorted.
 */
static bool
in_order(const Prospect *prospect, const LaEntry *entries, int count)
{
	for (int i = 1; i < count; i++)
	{
		if (entries[i].word < entries[i - 1].word)
			return false;
		if (entries[i].word == entries[i - 1].word &&
			la_key_compare_order(prospect->key,
								 la_record_tuple(entries[i - 1].record),
								 la_record_tuple(entries[i].record)) > 0)
			return false;
	}
	return true;
}

/*
 * Whether most of the later half of the entries comes after nine tenths of the earlier
 * half, or before.
 */
static bool
goes_with_rows(const Prospect *prospect, int count)
{
	int			half = count / 2;
	int			above = 0;
	int			below = 0;
	LaEntry    *earlier;
	uint64		low;
	uint64		high;

	if (!prospect->few_buckets || prospect->ordered || half == 0)
		return false;
	earlier = palloc(half * sizeof(LaEntry));
	memcpy(earlier, prospect->entries, half * sizeof(LaEntry));
	qsort(earlier, half, sizeof(LaEntry), compare_by_word);
	low = earlier[half / 10].word;
	high = earlier[half - 1 - half / 10].word;
	pfree(earlier);
	for (int i = half; i < count; i++)
	{
		above += prospect->entries[i].word > high;
		below += prospect->entries[i].word < low;
	}
	return Max(above, below) > (count - half) * FEWEST_BEYOND;
}

/*
 * How many of the entries, which agree in all words before the one that they carry, are
 * in groups that are too large to be sorted, and not in order, once the entries have
 * been distributed by `nwords` words in which they differ.  Nests as deep as that.
 */
static int
count_left(const Prospect *prospect, LaEntry *entries, int count, int nwords)
{
	int			start = 0;
	int			left = 0;

	qsort(entries, count, sizeof(LaEntry), compare_by_word);
	for (int i = 1; i <= count; i++)
	{
		LaEntry    *group = entries + start;
		int			size = i - start;

		if (i < count && entries[i].word == group->word)
			continue;
		start = i;
		if (size <= prospect->fitting || in_order(prospect, group, size))
			continue;
		if (nwords > 1 && take_next_words(prospect, group, size))
			left += count_left(prospect, group, size, nwords - 1);
		else
			left += size;
	}
	return left;
}

/*
 * Has entries that agree so far carry the next word in which they do not.  False if
 * there is none that we know.
 */
static bool
take_next_words(const Prospect *prospect, LaEntry *entries, int count)
{
	const LaBuildKey *key = prospect->key;
	LaPrefix	prefix;

	if (key->nencoded == 0)
		return false;
	la_prefix_begin(&prefix, key, la_record_tuple(entries[0].record));
	for (int i = 0; i < count; i++)
		la_prefix_add(&prefix, la_record_tuple(entries[i].record));
	la_prefix_end(&prefix);
	if (prefix.decompressed || la_prefix_is_whole(&prefix))
		return false;
	for (int i = 0; i < count; i++)
	{
		IndexTuple	tuple = la_record_tuple(entries[i].record);

		if (la_key_is_cut(key, tuple))
			return false;
		(void) la_key_next_word(key, tuple, prefix.length / 8, &entries[i].word);
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
