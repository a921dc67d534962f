/*-------------------------------------------------------------------------
 *
 * la_build_sort.c
 *	  collects index entries and hands them over in the index's order
 *
 * What the scan finds comes here row by row, and becomes entries: a word where
 * that is the whole key, else the index tuple with the first word of its key.
 * They are kept until all have come (la_build_collection.c), and then sorted and
 * handed over (la_build_drain.c).
 *
 * Texts of which sort keys would be made are collected without keys as long as they
 * come in order (la_build_in_order.c).
 *
 * Rows that are too long for a btree are not collected: one of them is enough
 * for the index to be refused, in words that PostgreSQL shall find, and nothing
 * that comes after has room for more than BTMaxItemSize.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "utils/memutils.h"

#include "index_build/keys/la_build_tuple.h"
#include "index_build/sort/la_build_collection.h"
#include "index_build/sort/la_build_drain.h"
#include "index_build/sort/la_build_in_order.h"
#include "index_build/sort/la_build_sort.h"

struct LaSort
{
	LaCollection entries;
	LaInOrder	order;			/* in which they come */
	bool		refused;		/* a row was too long */
	MemoryContext tuple_context;	/* for index_form_tuple() */
	IndexTuple	formed;			/* room for a tuple that is compared first */
};

static void add_to_core(LaSort *sort, uint64 place, const Datum *values,
						const bool *isnull);
static void add_tuple(LaSort *sort, uint64 place, const ItemPointerData *tid,
					  const Datum *values, const bool *isnull);
static void add_sized_tuple(LaSort *sort, uint64 place,
							const ItemPointerData *tid, const Datum *values,
							const bool *isnull, Size size, IndexTuple formed);

/*
 * How many chunks a sort with the given memory may fill with entries.
 */
int64
la_sort_pool_chunks(int64 bytes)
{
	return la_collection_pool_chunks(bytes);
}

/*
 * Starts to collect the entries of an index, using at most `bytes` of memory,
 * in the current context.
 */
LaSort *
la_sort_begin(Relation heap, LaBuildKey *key, int64 bytes, LaPoolShare *share)
{
	LaSort	   *sort = palloc0(sizeof(LaSort));
	bool		keeps_strings = key->kind == LA_RECORD_BYTES;

	la_collection_begin(&sort->entries, heap, key, bytes, share);
	la_in_order_begin(&sort->order, &sort->entries,
					  keeps_strings && share == NULL);
	sort->tuple_context = AllocSetContextCreate(CurrentMemoryContext,
												"index build tuple",
												ALLOCSET_SMALL_SIZES);
	if (keeps_strings)
		sort->formed = palloc(INDEX_SIZE_MASK + 1);
	return sort;
}

/*
 * Number of entries added.
 */
int64
la_sort_count(const LaSort *sort)
{
	return sort->entries.count;
}

/*
 * True if each entry has been compared with the one before and came behind it.
 */
bool
la_sort_is_in_order(const LaSort *sort)
{
	return sort->order.holds;
}

/*
 * True if a row was too long for a btree; there is no point in going on then.
 */
bool
la_sort_is_refused(const LaSort *sort)
{
	return sort->refused;
}

/*
 * Adds an entry.  `alive` is false for a row that a unique index must
 * contain but not check.
 */
void
la_sort_add(LaSort *sort, const ItemPointerData *tid, const Datum *values,
			const bool *isnull, bool alive)
{
	LaCollection *entries = &sort->entries;
	uint64		place = la_place_make(tid, alive);

	if (unlikely(sort->refused))
		return;
	la_collection_count(entries, place);

	if (entries->core != NULL && !sort->order.run_is_open)
		add_to_core(sort, place, values, isnull);
	else if (!entries->key->is_word)
		add_tuple(sort, place, tid, values, isnull);
	else if (isnull[0])
		la_spool_add(&entries->nulls, 0, place, sizeof(LaRecord));
	else
	{
		uint64		word = la_key_word_of_value(&entries->key->columns[0], values[0]);

		la_spool_add(la_collection_spool(entries, word), word, place,
					 sizeof(LaRecord));
	}
}

/*
 * May entries be added by la_sort_add_values()?
 */
bool
la_sort_takes_values(const LaSort *sort)
{
	return sort->entries.key->fixed_size > 0;
}

/*
 * Room for a live entry that is not NULL.
 */
static inline LaRecord *
add_live(LaCollection *entries, uint64 word, uint64 place, Size size)
{
	la_collection_count(entries, place);
	return la_spool_add(la_collection_spool(entries, word), word, place, size);
}

/*
 * Adds live entries of a key of a fixed size (see LaBuildKey.fixed_size), none of
 * them NULL.
 */
void
la_sort_add_values(LaSort *sort, const Datum *values, const uint64 *places,
				   int count)
{
	LaCollection *entries = &sort->entries;
	const LaBuildKey *key = entries->key;

	if (key->is_word)
	{
		/* this is la_key_word_of_value() */
		uint64		value_bits = la_key_value_bits(&key->columns[0]);
		uint64		flipped_bits = la_key_word_of_value(&key->columns[0], 0);

		for (int i = 0; i < count; i++)
			add_live(entries, (values[i] & value_bits) ^ flipped_bits, places[i],
					 sizeof(LaRecord));
		return;
	}
	for (int i = 0; i < count; i++)
	{
		LaRecord   *record;

		if (entries->core != NULL)
		{
			const bool	isnull = false;

			la_collection_count(entries, places[i]);
			la_core_sort_add(entries->core, places[i], &values[i], &isnull);
			continue;
		}
		record = add_live(entries, la_key_fixed_word(&key->columns[0], values[i]),
						  places[i], sizeof(LaRecord) + key->fixed_size);
		la_key_form_tuple(key, &values[i], key->fixed_size,
						  la_record_tuple(record));
		la_place_get_tid(places[i], &la_record_tuple(record)->t_tid);
	}
}

/*
 * Makes the index tuple of a row whose values cannot just be copied, in
 * sort->tuple_context, and has the values point into it, where none is out of line:
 * they are looked at more than once.  NULL if it is too long for a btree.
 */
static IndexTuple
form_tuple(LaSort *sort, Datum *values, const bool *isnull)
{
	TupleDesc	tupdesc = sort->entries.key->tupdesc;
	IndexTuple	tuple = index_form_tuple_context(tupdesc, values, isnull,
												 sort->tuple_context);
	bool		stored_isnull[INDEX_MAX_KEYS];

	if (IndexTupleSize(tuple) > BTMaxItemSize)
		return NULL;
	index_deform_tuple(tuple, tupdesc, values, stored_isnull);
	return tuple;
}

/*
 * Whether an index tuple is not too long for a btree, as far as a short look tells.
 */
static bool
is_short(const LaBuildKey *key, const Datum *values, const bool *isnull)
{
	Size		size = sizeof(IndexTupleData) + sizeof(IndexAttributeBitMapData);

	for (int i = 0; i < key->natts; i++)
	{
		int			length = TupleDescCompactAttr(key->tupdesc, i)->attlen;

		if (isnull[i])
			continue;
		if (length < 0 &&
			(length != -1 || VARATT_IS_EXTERNAL(DatumGetPointer(values[i]))))
			return false;
		size += MAXIMUM_ALIGNOF +
			(length > 0 ? length : VARSIZE_ANY(DatumGetPointer(values[i])));
	}
	return MAXALIGN(size) <= BTMaxItemSize;
}

/*
 * Adds an entry to core's sort, unless its index tuple is too long.
 */
static void
add_to_core(LaSort *sort, uint64 place, const Datum *values, const bool *isnull)
{
	Datum		stored[INDEX_MAX_KEYS];

	if (!is_short(sort->entries.key, values, isnull))
	{
		memcpy(stored, values, sort->entries.key->natts * sizeof(Datum));
		values = stored;
		sort->refused = form_tuple(sort, stored, isnull) == NULL;
	}
	if (!sort->refused)
		la_core_sort_add(sort->entries.core, place, values, isnull);
	MemoryContextReset(sort->tuple_context);
}

/*
 * Adds an entry with its index tuple, unless that is too long.  It is made before
 * the key is, so that what is huge has been refused or compressed by then.  Its size
 * is aligned as core wants it (relies on _bt_buildadd() in nbtsort.c);
 * index_form_tuple() has done that.
 */
static void
add_tuple(LaSort *sort, uint64 place, const ItemPointerData *tid,
		  const Datum *values, const bool *isnull)
{
	const LaBuildKey *key = sort->entries.key;
	Size		size = la_key_tuple_size(key, values, isnull);
	Datum		stored[INDEX_MAX_KEYS];
	IndexTuple	formed = NULL;

	if (size == 0 || size > BTMaxItemSize)
	{
		memcpy(stored, values, key->natts * sizeof(Datum));
		values = stored;
		formed = form_tuple(sort, stored, isnull);
		sort->refused = formed == NULL;
		size = formed == NULL ? 0 : IndexTupleSize(formed);
	}

	if (!sort->refused)
		add_sized_tuple(sort, place, tid, values, isnull, size, formed);
	if (values == stored)
		MemoryContextReset(sort->tuple_context);
}

/*
 * The same once the size of the index tuple is known, and the tuple itself if it had
 * to be formed.
 */
static void
add_sized_tuple(LaSort *sort, uint64 place, const ItemPointerData *tid,
				const Datum *values, const bool *isnull, Size size,
				IndexTuple formed)
{
	LaCollection *entries = &sort->entries;
	IndexTuple	tuple;

	if (la_in_order_is_tried(&sort->order))
	{
		if (formed == NULL)
		{
			formed = sort->formed;
			la_key_form_tuple(entries->key, values, size, formed);
		}
		formed->t_tid = *tid;
		if (la_in_order_add(&sort->order, formed, place, isnull[0]))
			return;
	}
	if (entries->core != NULL)
	{
		la_core_sort_add(entries->core, place, values, isnull);
		return;
	}

	tuple = la_collection_add(entries, values, isnull, place, size);
	if (formed != NULL)
		memcpy(tuple, formed, size);
	else
		la_key_form_tuple(entries->key, values, size, tuple);
	tuple->t_tid = *tid;
}

/*
 * Keeps to the memory that there is; to be called at least once for each page of the
 * table, of which so much has been read.
 */
void
la_sort_limit_memory(LaSort *sort, double fraction_done)
{
	LaCollection *entries = &sort->entries;

	entries->fraction_done = Max(entries->fraction_done, fraction_done);
	if (entries->without_keys && !sort->order.holds &&
		la_pool_is_full(&entries->pool, entries->reserve))
		la_in_order_end(&sort->order);
	else
		la_collection_limit_memory(entries, fraction_done);
}

/*
 * Sorts all entries and hands them over to `output`.
 */
void
la_sort_finish(LaSort *sort, LaOutput *output)
{
	LaCollection *entries = &sort->entries;

	entries->fraction_done = 1;
	if (entries->without_keys && !sort->order.holds)
		la_in_order_end(&sort->order);
	la_drain(entries, output);
}
