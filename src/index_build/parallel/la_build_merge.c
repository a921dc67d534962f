/*-------------------------------------------------------------------------
 *
 * la_build_merge.c
 *	  merges the leader's entries with those of its workers
 *
 * Each process of a parallel build sorts the entries of its share of the
 * table.  The leader's sort hands its entries over as they get ready; before
 * each, those of the workers go first that come first.  So there are as many
 * runs as there are processes, each is read once while it is being sorted,
 * and the whole is the order that one process would have made: by words, by
 * the rest of the keys where words are equal, by heap TIDs where keys are
 * equal.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "index_build/keys/la_build_tuple.h"
#include "index_build/parallel/la_build_merge.h"

/* Words collected before they go on together; arbitrary. */
#define BUFFERED_WORDS 512

typedef struct LaMerge
{
	LaOutput	output;			/* first, so that one is the other */
	LaOutput   *next;
	const LaBuildKey *key;
	int			nstreams;
	LaStream   *streams;
	int			part;			/* -1 before the first */
	bool		begun;			/* the part */
	LaStream   *least;			/* which comes first; NULL at the part's end */
	int			nbuffered;
	LaRecord	buffer[BUFFERED_WORDS];
} LaMerge;

static inline bool
word_precedes(const LaRecord *a, const LaRecord *b)
{
	return a->word < b->word || (a->word == b->word && a->place < b->place);
}

/*
 * Whether an entry of a stream comes before another one.
 */
static bool
tuple_precedes(const LaMerge *merge, const LaRecord *a, uint64 word,
			   uint64 place, IndexTuple tuple)
{
	int			order;

	if (a->word != word)
		return a->word < word;
	order = la_build_tuple_compare_order(merge->key, la_build_record_tuple(a), tuple);
	return order < 0 || (order == 0 && a->place < place);
}

/*
 * Looks which stream has the entry of this part that comes first.
 */
static void
find_least(LaMerge *merge)
{
	merge->least = NULL;
	for (int i = 0; i < merge->nstreams; i++)
	{
		LaStream   *stream = &merge->streams[i];
		LaRecord   *least;

		if (stream->part != merge->part)
			continue;
		if (merge->least == NULL)
		{
			merge->least = stream;
			continue;
		}
		least = merge->least->record;
		if (stream->kind == LA_RECORD_WORD ?
			word_precedes(stream->record, least) :
			tuple_precedes(merge, stream->record, least->word, least->place,
						   la_build_record_tuple(least)))
			merge->least = stream;
	}
}

/*
 * Looks for the first entry of the part, as late as possible: meanwhile the
 * workers sort at the same time as the leader.
 */
static void
begin_streams(LaMerge *merge)
{
	if (merge->part == 0)
	{
		for (int i = 0; i < merge->nstreams; i++)
			la_build_stream_receive(&merge->streams[i]);
	}
	find_least(merge);
	merge->begun = true;
}

/*
 * Goes on after the entry that came first has been taken.
 */
static inline void
advance_least(LaMerge *merge)
{
	la_build_stream_next(merge->least);
	if (merge->nstreams > 1 || merge->least->part != merge->part)
		find_least(merge);
}

static void
put_buffer(LaMerge *merge)
{
	merge->next->add_words(merge->next, merge->buffer, merge->nbuffered);
	merge->nbuffered = 0;
}

static inline void
add_word(LaMerge *merge, const LaRecord *record)
{
	if (merge->nbuffered == BUFFERED_WORDS)
		put_buffer(merge);
	merge->buffer[merge->nbuffered++] = *record;
}

static void
merge_begin_part(LaOutput *output, bool are_null)
{
	LaMerge    *merge = (LaMerge *) output;

	merge->part++;
	merge->begun = false;
	merge->next->begin_part(merge->next, are_null);
}

static void
merge_add_words(LaOutput *output, const LaRecord *records, int64 count)
{
	LaMerge    *merge = (LaMerge *) output;

	if (!merge->begun)
		begin_streams(merge);
	for (int64 i = 0; i < count; i++)
	{
		while (merge->least != NULL &&
			   word_precedes(merge->least->record, &records[i]))
		{
			add_word(merge, merge->least->record);
			advance_least(merge);
		}
		add_word(merge, &records[i]);
	}
}

static void
put_least_tuple(LaMerge *merge)
{
	LaRecord   *record = merge->least->record;

	merge->next->add_tuple(merge->next, la_build_record_tuple(record), record->word,
						   record->place);
	advance_least(merge);
}

static void
merge_add_tuple(LaOutput *output, IndexTuple tuple, uint64 word, uint64 place)
{
	LaMerge    *merge = (LaMerge *) output;

	if (!merge->begun)
		begin_streams(merge);
	while (merge->least != NULL &&
		   tuple_precedes(merge, merge->least->record, word, place, tuple))
		put_least_tuple(merge);
	merge->next->add_tuple(merge->next, tuple, word, place);
}

static void
merge_end_part(LaOutput *output)
{
	LaMerge    *merge = (LaMerge *) output;

	if (!merge->begun)
		begin_streams(merge);
	while (merge->least != NULL)
	{
		if (merge->least->kind != LA_RECORD_WORD)
		{
			put_least_tuple(merge);
			continue;
		}
		add_word(merge, merge->least->record);
		advance_least(merge);
	}
	if (merge->nbuffered > 0)
		put_buffer(merge);
	merge->next->end_part(merge->next);
}

/*
 * The place for the leader's sorted entries, which with those of the workers go on
 * to `next`.
 */
LaOutput *
la_build_merge_begin(LaOutput *next, const LaBuildKey *key, LaStream *streams,
					 int nstreams)
{
	LaMerge    *merge = palloc(sizeof(LaMerge));

	merge->output.begin_part = merge_begin_part;
	merge->output.add_words = merge_add_words;
	merge->output.add_tuple = merge_add_tuple;
	merge->output.end_part = merge_end_part;
	merge->next = next;
	merge->key = key;
	merge->nstreams = nstreams;
	merge->streams = streams;
	merge->part = -1;
	merge->nbuffered = 0;
	return &merge->output;
}
