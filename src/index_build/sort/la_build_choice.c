/*-------------------------------------------------------------------------
 *
 * la_build_choice.c
 *	  how much of the sort keys of texts is worth making
 *
 * Sort keys spare comparisons, of which one in ICU takes about as long as moving a
 * hundred bytes to a file and back.  What a sort does not look at, though, is made,
 * written and read for nothing, and the first bytes of most texts tell them apart.
 * Others agree in a long beginning, so that the first bytes tell nothing.
 *
 * So some rows are collected without keys, and of the texts of some of these the
 * sort keys are made as far as they might be used, and sorted: neighbours tell how many
 * bytes it takes to distinguish them.  If these are many, or not known of more than half
 * of the rows, none are made, and rows are sorted by comparison, as PostgreSQL's sort gives
 * up its abbreviated keys.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "common/int.h"
#include "varatt.h"

#include "index_build/sort/la_build_choice.h"

/*
 * Bytes of a sort key beyond those that distinguish the rows that were looked at,
 * because there are more rows; each divides equal ones by ten or more, and what is
 * not divided is compared.  The first word of a key should do with fewer.  Arbitrary.
 */
#define MORE_WEIGHTS 4
#define MORE_IN_FIRST_WORD 2

/*
 * Most bytes of sort keys that are better than none.  Arbitrary: to write and read as
 * many with each row takes as long as half a dozen comparisons.
 */
#define MAX_WEIGHTS 64

/* The number of bytes is one that fills words with what goes with them. */
#define KEY_OVERHEAD (offsetof(LaKeyBytes, bytes) + 1)

typedef struct Text
{
	uint32		hash;
	int			length;			/* of the sort key, as far as it is made */
	uint8		bytes[MAX_WEIGHTS];
} Text;

static int	sample_texts(LaBuildKey *key, LaSpool *spool, Text *texts);
static int	enough_bytes(const Text *texts, int count);
static int	compare_texts(const void *a, const void *b);
static int	compare_numbers(const void *a, const void *b);

/*
 * Chooses for a key, if its texts leave a choice, by rows from everywhere in a spool.
 * Not once a row's key has been made.
 */
void
la_choose_weights(LaBuildKey *key, LaSpool *spool)
{
	LaSortKey  *sort_key = &key->columns[key->nencoded - 1].sort_key;
	Text	   *texts;
	int			count;

	if (!sort_key->has_prefixes)
		return;
	texts = palloc_array(Text, LA_CHOICE_ROWS);
	sort_key->limit = MAX_WEIGHTS;
	count = sample_texts(key, spool, texts);
	qsort(texts, count, sizeof(Text), compare_texts);
	sort_key->limit = enough_bytes(texts, count);
	pfree(texts);
}

static int
sample_texts(LaBuildKey *key, LaSpool *spool, Text *texts)
{
	LaSortKey  *sort_key = &key->columns[key->nencoded - 1].sort_key;
	int64		step = spool->nrecords / LA_CHOICE_ROWS + 1;
	int64		position = 0;
	int			count = 0;
	LaSpoolReader reader;
	LaRecord   *record;

	la_spool_look(spool, &reader);
	while ((record = la_spool_next(&reader)) != NULL)
	{
		Text	   *text = &texts[count];
		bool		isnull;
		Datum		value;

		if (position++ % step != 0)
			continue;
		value = index_getattr(la_record_tuple(record), key->nencoded,
							  key->tupdesc, &isnull);
		if (isnull)
			continue;
		la_sort_key_make(sort_key, value);
		text	  ->length = sort_key->length;

		memcpy(text->bytes, sort_key->bytes, sort_key->length);
		text	  ->hash = hash_bytes((unsigned char *) VARDATA_ANY(DatumGetPointer(value)),
									  VARSIZE_ANY_EXHDR(DatumGetPointer(value)));

		count++;
	}
	la_spool_look_end(&reader);
	return count;
}

static int
compare_texts(const void *a, const void *b)
{
	const Text *text_a = a;
	const Text *text_b = b;
	int			order = memcmp(text_a->bytes, text_b->bytes,
							   Min(text_a->length, text_b->length));

	return order != 0 ? order : pg_cmp_s32(text_a->length, text_b->length);
}

static int
compare_numbers(const void *a, const void *b)
{
	return pg_cmp_s32(*(const int *) a, *(const int *) b);
}

/*
 * How many bytes of sort keys distinguish nine of ten neighbours that are not equal.
 */
static int
enough_bytes(const Text *texts, int count)
{
	int			needed[LA_CHOICE_ROWS];
	int			ndecided = 0;
	int			nundecided = 0;
	Size		limit;

	for (int i = 1; i < count; i++)
	{
		const Text *before = &texts[i - 1];
		int			common = 0;

		while (common < Min(before->length, texts[i].length) &&
			   before->bytes[common] == texts[i].bytes[common])
			common++;
		if (common < Max(before->length, texts[i].length))
			needed[ndecided++] = common + 1;
		else if (before->hash != texts[i].hash)
			nundecided++;
	}
	if (nundecided > ndecided)
		return 0;
	if (ndecided == 0)
		return LA_USUAL_WEIGHTS;

	qsort(needed, ndecided, sizeof(int), compare_numbers);
	limit = needed[ndecided * 9 / 10];
	if (limit + MORE_IN_FIRST_WORD <= sizeof(uint64))
		return sizeof(uint64);
	limit = MAXALIGN(limit + MORE_WEIGHTS + KEY_OVERHEAD) - KEY_OVERHEAD;
	return limit > MAX_WEIGHTS ? 0 : limit;
}
