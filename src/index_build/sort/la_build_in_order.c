/*-------------------------------------------------------------------------
 *
 * la_build_in_order.c
 *	  collects rows without keys as long as they come in the index's order
 *
 * Sort keys of collations take longer to make than neighbours take to be compared.  As
 * long as rows come in order, that is all that is done with them.  When one does not, the
 * keys of all are made.  Several processes would have to do the same, so they begin with
 * keys.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "index_build/keys/la_build_tuple.h"
#include "index_build/sort/la_build_choice.h"
#include "index_build/sort/la_build_in_order.h"

static bool comes_last(const LaInOrder *order, const LaSpool *spool,
					   IndexTuple tuple, bool isnull);
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
 * Adds a row without a key, or if that can be done no more has the keys of those before
 * made and returns false.
 */
bool
la_in_order_add(LaInOrder *order, IndexTuple tuple, uint64 place, bool isnull)
{
	LaCollection *entries = order->entries;
	LaSpool    *spool = isnull ? &entries->nulls : &entries->spool;
	Size		size = IndexTupleSize(tuple);
	IndexTuple	copy;

	order->holds = order->holds && comes_last(order, spool, tuple, isnull);
	if (!order->holds &&
		entries->spool.nrecords + entries->nulls.nrecords >= LA_CHOICE_ROWS)
	{
		la_in_order_end(order);
		return false;
	}
	copy = la_record_tuple(la_spool_add(spool, 0, place,
										sizeof(LaRecord) + size + la_bytes_size(0)));
	la_copy(copy, tuple, size);
	la_tuple_bytes(copy)->length = 0;
	if (order->holds)
		la_copy(order->last[isnull], tuple, size);
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

/*
 * Makes the keys of all rows that have come without; those that are still to come get
 * theirs at once.
 */
void
la_in_order_end(LaInOrder *order)
{
	LaCollection *entries = order->entries;
	LaSpool		spool = entries->spool;
	LaSpool		nulls = entries->nulls;

	la_choose_weights(entries->key, &spool);
	entries->without_keys = order->holds = false;
	la_spool_init(&entries->spool, &entries->pool, entries->key->kind);
	la_spool_init(&entries->nulls, &entries->pool, entries->key->kind);
	add_with_keys(entries, &spool, 0);
	add_with_keys(entries, &nulls, spool.nrecords);
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
