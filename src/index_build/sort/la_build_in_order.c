/*-------------------------------------------------------------------------
 *
 * la_build_in_order.c
 *	  collects rows without keys as long as they come in the index's order
 *
 * Sort keys of collations take longer to make than neighbours take to be compared.  As
 * long as rows come in order, that is all that is done with them.  When one does not, keys
 * begin to be made; if many have come by then, these stay what they are, a run, to
 * which rows in order are still added, and the others are sorted and merged with them
 * (la_build_run.c).  Several processes would have to do the same, so they begin with
 * keys.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "index_build/keys/la_build_choice.h"
#include "index_build/keys/la_build_tuple.h"
#include "index_build/sort/la_build_in_order.h"

/*
 * Fewest rows that came in order and are merged with others in the end rather than
 * sorted with them; arbitrary.
 */
#define LEAST_RUN 1024

static bool comes_last(const LaInOrder *order, const LaSpool *spool,
					   IndexTuple tuple, bool isnull);
static void add_without_key(LaSpool *spool, IndexTuple tuple, uint64 place);
static void choose_keys(LaCollection *entries);
static void add_with_keys(LaCollection *entries, LaSpool *spool, int64 already);

/*
 * Begins to compare rows, if that is to be tried, in the current context.
 */
void
la_in_order_begin(LaInOrder *order, LaCollection *entries, bool tries)
{
	memset(order, 0, sizeof(*order));
	order->entries = entries;
	if (!tries)
		return;
	order->holds = entries->without_keys = true;
	for (int i = 0; i < 2; i++)
		order->last[i] = palloc(INDEX_SIZE_MASK + 1);
}

/*
 * Adds a row without a key if that can be done: to the rows that have come so far, or to
 * the run if it comes behind that.
 */
bool
la_in_order_add(LaInOrder *order, IndexTuple tuple, uint64 place, bool isnull)
{
	LaCollection *entries = order->entries;
	LaSpool    *spool = &entries->run;

	if (entries->without_keys)
	{
		spool = isnull ? &entries->nulls : &entries->spool;
		order->holds = order->holds && comes_last(order, spool, tuple, isnull);
		if (!order->holds &&
			entries->spool.nrecords + entries->nulls.nrecords >= LA_CHOICE_ROWS)
		{
			la_in_order_end(order);
			return false;
		}
	}
	else if (isnull)
		return false;
	else if (!comes_last(order, spool, tuple, isnull))
	{
		/* there is no point in comparing what is hardly ever in order */
		order->run_is_open = ++order->nbehind_run <= spool->nrecords / 2;
		return false;
	}
	add_without_key(spool, tuple, place);
	if (order->holds || order->run_is_open)
		la_copy(order->last[isnull], tuple, IndexTupleSize(tuple));
	return true;
}

/*
 * Whether a row comes behind the last one of a spool.
 */
static bool
comes_last(const LaInOrder *order, const LaSpool *spool, IndexTuple tuple,
		   bool isnull)
{
	IndexTuple	last = order->last[isnull];
	bool		has_null;
	int			sign;

	if (spool->nrecords == 0)
		return true;
	sign = la_key_compare(order->entries->key, last, tuple, &has_null);
	if (sign == 0)
		sign = ItemPointerCompare(&last->t_tid, &tuple->t_tid);
	return sign <= 0;
}

static void
add_without_key(LaSpool *spool, IndexTuple tuple, uint64 place)
{
	Size		size = IndexTupleSize(tuple);
	LaRecord   *record = la_spool_add(spool, 0, place,
									  sizeof(LaRecord) + size + la_bytes_size(0));
	IndexTuple	copy = la_record_tuple(record);

	la_copy(copy, tuple, size);
	la_tuple_bytes(copy)->length = 0;
}

/*
 * Makes the keys of all rows that have come without, unless these are a run; those that
 * are still to come get theirs at once.
 */
void
la_in_order_end(LaInOrder *order)
{
	LaCollection *entries = order->entries;
	int64		next_look = entries->next_look;
	LaSpool		spool;
	LaSpool		nulls;

	choose_keys(entries);
	entries->without_keys = order->holds = false;
	if (entries->spool.nrecords >= LEAST_RUN)
	{
		entries->run = entries->spool;
		order->run_is_open = true;
		la_spool_init(&entries->spool, &entries->pool, entries->key->kind);
	}
	if (la_key_is_empty(entries->key))
	{
		la_collection_hand_to_core(entries);
		return;
	}
	spool = entries->spool;
	nulls = entries->nulls;
	la_spool_init(&entries->spool, &entries->pool, entries->key->kind);
	la_spool_init(&entries->nulls, &entries->pool, entries->key->kind);
	entries->next_look = 0;		/* core's sort cannot have them meanwhile */
	add_with_keys(entries, &spool, 0);
	add_with_keys(entries, &nulls, spool.nrecords);
	if (entries->buckets == NULL && entries->spool.file == NULL)
		entries->next_look = next_look;
}

/*
 * Chooses what keys are made, by rows from everywhere among those that have come.
 */
static void
choose_keys(LaCollection *entries)
{
	int64		step = entries->spool.nrecords / LA_CHOICE_ROWS + 1;
	int64		position = 0;
	LaChoice   *choice;
	LaSpoolReader reader;
	LaRecord   *record;

	if (la_key_chosen_column(entries->key) < 0)
		return;
	choice = la_choice_begin(entries->key, entries->bytes);
	la_spool_look(&entries->spool, &reader);
	while ((record = la_spool_next(&reader)) != NULL)
	{
		if (position++ % step == 0)
			la_choice_add(choice, la_record_tuple(record));
	}
	la_spool_look_end(&reader);
	la_choice_end(choice);
}

/*
 * Adds the rows of a spool once more, with their keys, after so many others.
 */
static void
add_with_keys(LaCollection *entries, LaSpool *spool, int64 already)
{
	int64		whole = entries->count;
	LaSpoolReader reader;

	la_spool_read(spool, &reader, false);
	while (la_spool_next_chunk(&reader))
	{
		while (reader.at < reader.end)
		{
			LaRecord   *record = (LaRecord *) reader.at;
			IndexTuple	tuple = la_record_tuple(record);
			Size		size = IndexTupleSize(tuple);
			Datum		values[INDEX_MAX_KEYS];
			bool		isnull[INDEX_MAX_KEYS];

			index_deform_tuple(tuple, entries->key->tupdesc, values, isnull);
			reader.at += la_record_size(spool->kind, record);
			memcpy(la_collection_add(entries, values, isnull, record->place, size),
				   tuple, size);
			already++;
		}
		la_collection_limit_memory(entries,
								   entries->fraction_done * already / whole);
	}
}
