/*-------------------------------------------------------------------------
 *
 * la_build_run.c
 *	  merges entries that came in order with others
 *
 * Where the rows of a table are nearly in the order of an index, most of its entries
 * are in a run (see la_build_in_order.c), for which no keys were made.  The others
 * are sorted, and before each of them go those of the run that come first: by core's
 * comparators, because words would have to be made for it.  What goes on has no words.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "index_build/keys/la_build_tuple.h"
#include "index_build/sort/la_build_run.h"

typedef struct RunMerge
{
	LaOutput	output;			/* first, so that one is the other */
	LaOutput   *next;
	const LaBuildKey *key;
	LaSpool    *run;
	LaSpoolReader reader;
	LaRecord   *head;			/* of the run; NULL before and behind it */
} RunMerge;

static void run_begin_part(LaOutput *output, bool are_null);
static void run_add_words(LaOutput *output, const LaRecord *records, int64 count);
static void run_add_tuple(LaOutput *output, IndexTuple tuple, uint64 word,
						  uint64 place);
static void run_end_part(LaOutput *output);

/*
 * The place for all sorted entries but those of the run, in whose part of the output
 * (see la_build_output.h) none is NULL.  With these they go on to `next`.
 */
LaOutput *
la_run_begin(LaOutput *next, const LaBuildKey *key, LaSpool *run)
{
	RunMerge   *merge = palloc0(sizeof(RunMerge));

	merge->output.begin_part = run_begin_part;
	merge->output.add_words = run_add_words;
	merge->output.add_tuple = run_add_tuple;
	merge->output.end_part = run_end_part;
	merge->next = next;
	merge->key = key;
	merge->run = run;
	return &merge->output;
}

static void
run_begin_part(LaOutput *output, bool are_null)
{
	RunMerge   *merge = (RunMerge *) output;

	merge->next->begin_part(merge->next, are_null);
	if (are_null)
		return;
	la_spool_read(merge->run, &merge->reader, false);
	merge->head = la_spool_next(&merge->reader);
}

static void
run_add_words(LaOutput *output, const LaRecord *records, int64 count)
{
	elog(ERROR, "words cannot be merged with index tuples");
}

/*
 * Whether the first entry left of the run comes before another one.
 */
static inline bool
head_precedes(const RunMerge *merge, IndexTuple tuple, uint64 place)
{
	bool		has_null;
	int			order = la_key_compare(merge->key, la_record_tuple(merge->head),
									   tuple, &has_null);

	return order < 0 || (order == 0 && merge->head->place < place);
}

static void
put_head(RunMerge *merge)
{
	merge->next->add_tuple(merge->next, la_record_tuple(merge->head), 0,
						   merge->head->place);
	merge->head = la_spool_next(&merge->reader);
}

static void
run_add_tuple(LaOutput *output, IndexTuple tuple, uint64 word, uint64 place)
{
	RunMerge   *merge = (RunMerge *) output;

	while (merge->head != NULL && head_precedes(merge, tuple, place))
		put_head(merge);
	merge->next->add_tuple(merge->next, tuple, 0, place);
}

static void
run_end_part(LaOutput *output)
{
	RunMerge   *merge = (RunMerge *) output;

	while (merge->head != NULL)
		put_head(merge);
	merge->next->end_part(merge->next);
}
