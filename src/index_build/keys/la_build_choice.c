/*-------------------------------------------------------------------------
 *
 * la_build_choice.c
 *	  how much of the sort keys of texts is worth making
 *
 * Sort keys spare comparisons, of which one in ICU takes about as long as moving a
 * hundred bytes to a file and back.  What a sort does not look at, though, is made,
 * written and read for nothing, and the first bytes of most texts tell them apart.
 * Others agree in a long beginning, so that the first bytes tell nothing, or throughout.
 *
 * So some rows are collected without keys, and of the texts of some of these the
 * sort keys are made as far as they might be used, and sorted: neighbours tell how many
 * bytes it takes to distinguish them.  If these are many, or not known of more than half
 * of the rows, none are made, and rows are sorted by comparison, as PostgreSQL's sort gives
 * up its abbreviated keys.  If most texts are the same as others and short, whole sort keys are
 * made: then equal keys mean equal texts, and columns that follow are part of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "common/int.h"
#include "varatt.h"

#include "index_build/keys/la_build_choice.h"

/*
 * Most bytes of a text on average, most of which are the same as others, for whole
 * sort keys.  Arbitrary: a whole sort key of 32 letters takes as long as four comparisons.
 */
#define MAX_WHOLE_AVERAGE 32

/*
 * Memory, in bytes, with less of which longer keys are not worth it, because rows
 * are moved to files twice.  Building an index on 200,000 texts of 22 bytes, 20 of them
 * different, took 1.2 to 1.5 of PostgreSQL's time with 1 MB, 0.8 to 1.1 with 4 MB.
 */
#define LITTLE_MEMORY (7 * 512 * 1024)

/*
 * Bytes of a sort key beyond those that distinguish the rows that were looked at,
 * because there are more rows; each divides equal ones by ten or more, and what is
 * not divided is compared.  The first word of a key should do with fewer.  Arbitrary.
 */
#define MORE_WEIGHTS 4
#define MORE_IN_FIRST_WORD 2

/*
 * Most bytes of sort keys that are better than none, if it takes as many, with enough
 * memory and with little.  Arbitrary: to write and read 64 with each row takes as long
 * as half a dozen comparisons.
 */
#define MAX_WEIGHTS 64
#define MAX_WEIGHTS_IN_LITTLE 28

/* The number of bytes is one that fills words with what goes with them. */
#define KEY_OVERHEAD (offsetof(LaKeyBytes, bytes) + 1)

typedef struct ChoiceText
{
	uint32		hash;
	int			length;			/* of the sort key, as far as it is made */
	uint8		bytes[LA_MOST_WEIGHTS];
} ChoiceText;

struct LaChoice
{
	LaBuildKey *key;
	int			column;
	bool		has_memory;		/* for long keys */
	int			count;
	int64		text_bytes;
	ChoiceText	texts[LA_CHOICE_ROWS];
};

/* What the neighbours among sorted texts have in common. */
typedef struct Neighbours
{
	int			nsame;			/* pairs of equal texts */
	int			nundecided;		/* of others whose sort keys are not known to
								 * differ */
	int			ndecided;
	int			needed[LA_CHOICE_ROWS]; /* bytes that it takes */
} Neighbours;

static int	compare_keys(const void *a, const void *b);
static int	compare_numbers(const void *a, const void *b);
static void look_at_neighbours(LaChoice *choice, Neighbours *neighbours);
static int	limit_of(const LaChoice *choice, Neighbours *neighbours);

/*
 * Begins to choose for a key, of whose column that can be done (see
 * la_key_chosen_column()), and a sort with so much memory, in the current context.
 */
LaChoice *
la_choice_begin(LaBuildKey *key, int64 bytes)
{
	LaChoice   *choice = palloc(sizeof(LaChoice));

	choice->key = key;
	choice->column = la_key_chosen_column(key);
	choice->has_memory = choice->column > 0 || bytes >= LITTLE_MEMORY;
	choice->count = 0;
	choice->text_bytes = 0;
	la_key_choose_weights(key, LA_MOST_WEIGHTS);
	return choice;
}

/*
 * Looks at a row, unless that is NULL or there have been enough.
 */
void
la_choice_add(LaChoice *choice, IndexTuple tuple)
{
	LaSortKey  *sort_key = &choice->key->columns[choice->column].sort_key;
	ChoiceText *chosen;
	bool		isnull;
	Datum		value = index_getattr(tuple, choice->column + 1,
									  choice->key->tupdesc, &isnull);

	if (isnull || choice->count == LA_CHOICE_ROWS)
		return;
	chosen = &choice->texts[choice->count++];

	la_sort_key_make(sort_key, value);
	chosen->length = sort_key->length;

	memcpy(chosen->bytes, sort_key->bytes, sort_key->length);
	chosen->hash = hash_bytes((unsigned char *) VARDATA_ANY(DatumGetPointer(value)),
							  VARSIZE_ANY_EXHDR(DatumGetPointer(value)));

	choice->text_bytes += VARSIZE_ANY_EXHDR(DatumGetPointer(value));
}

/*
 * Chooses.
 */
void
la_choice_end(LaChoice *choice)
{
	Neighbours	neighbours = {0};

	look_at_neighbours(choice, &neighbours);
	la_key_choose_weights(choice->key, limit_of(choice, &neighbours));
	pfree(choice);
}

static int
compare_keys(const void *a, const void *b)
{
	const ChoiceText *text_a = a;
	const ChoiceText *text_b = b;
	int			order = memcmp(text_a->bytes, text_b->bytes,
							   Min(text_a->length, text_b->length));

	return order != 0 ? order : pg_cmp_s32(text_a->length, text_b->length);
}

static int
compare_numbers(const void *a, const void *b)
{
	return pg_cmp_s32(*(const int *) a, *(const int *) b);
}

static void
look_at_neighbours(LaChoice *choice, Neighbours *neighbours)
{
	qsort(choice->texts, choice->count, sizeof(ChoiceText), compare_keys);
	for (int i = 1; i < choice->count; i++)
	{
		const ChoiceText *before = &choice->texts[i - 1];
		const ChoiceText *text = &choice->texts[i];
		int			common = 0;

		while (common < Min(before->length, text->length) &&
			   before->bytes[common] == text->bytes[common])
			common++;
		if (common < Max(before->length, text->length))
			neighbours->needed[neighbours->ndecided++] = common + 1;
		else if (before->hash == text->hash)
			neighbours->nsame++;
		else
			neighbours->nundecided++;
	}
}

/*
 * How many bytes of sort keys are to be made.
 */
static int
limit_of(const LaChoice *choice, Neighbours *neighbours)
{
	int			ndecided = neighbours->ndecided;
	Size		limit;

	if (neighbours->nundecided > ndecided)
		return 0;
	if (neighbours->nsame > choice->count / 2 &&
		choice->text_bytes <= (int64) choice->count * MAX_WHOLE_AVERAGE)
		return choice->has_memory ? LA_WHOLE_KEYS : 0;
	if (ndecided == 0)
		return LA_USUAL_WEIGHTS;

	/* enough for nine of ten */
	qsort(neighbours->needed, ndecided, sizeof(int), compare_numbers);
	limit = neighbours->needed[ndecided * 9 / 10];
	if (limit + MORE_IN_FIRST_WORD <= sizeof(uint64))
		return sizeof(uint64);
	limit += MORE_WEIGHTS;
	limit = MAXALIGN(limit + KEY_OVERHEAD) - KEY_OVERHEAD;
	return limit > (choice->has_memory ? MAX_WEIGHTS : MAX_WEIGHTS_IN_LITTLE) ? 0 : limit;
}
