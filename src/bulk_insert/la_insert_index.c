/*-------------------------------------------------------------------------
 *
 * la_insert_index.c
 *	  index entries of inserted rows, collected and sorted
 *
 * Entries that come in the order of the index find the page before in the processor's
 * cache, and the way to it; in random order each costs more than its row.  So
 * entries for btrees are sorted before they are inserted, by core's own functions:
 * as many as fit into work_mem at a time, or, when the table had hardly any rows, many more
 * of them.  In that case an index whose file is of our own making is not told of rows
 * any more once there are many, and built at the end (la_insert_rebuild.c).
 *
 * A row whose entry is missing is not yet visible to anybody, as the statement has
 * not ended.  Uniqueness is checked as each entry is inserted, with core's waits and
 * errors.  Where core has to know at once whether a row conflicts with another, for a
 * trigger that checks again (deferrable constraints), and for other kinds of
 * indexes, entries are not collected.
 *
 * What happens to a row mirrors ExecInsertIndexTuples() in execIndexing.c and
 * btinsert() in nbtree.c.  Reads ResultRelInfo of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "bulk_insert/la_insert_index.h"
#include "bulk_insert/la_insert_rebuild.h"

/* Least memory of a sort, in kB: the least that work_mem can be. */
#define LEAST_MEMORY 64

/* Bytes that an entry takes in memory beside its own: SortTuple of tuplesort.h. */
#define ENTRY_OVERHEAD sizeof(SortTuple)

static void add_index(LaInsertIndexes *indexes, Relation index,
					  IndexInfo *info);
static bool can_collect(Relation index, const IndexInfo *info);
static bool has_entry(const LaInsertIndex *index, EState *estate,
					  ExprContext *context);
static void collect(LaInsertIndexes *indexes, LaInsertIndex *index,
					TupleTableSlot *row);
static Size most_bytes(const LaInsertIndexes *indexes,
					   const LaInsertIndex *index);
static void forget_collected(LaInsertIndex *index);
static void insert_collected(LaInsertIndexes *indexes, LaInsertIndex *index);

/*
 * Collects entries of rows of a table, whose indexes are open, from now on.  NULL
 * when it has no index for that.  from_nothing says that the table had hardly any rows
 * before.  Allocates in the current context.
 */
LaInsertIndexes *
la_insert_indexes_begin(ResultRelInfo *table, EState *estate, bool from_nothing,
						LaCounters *counters)
{
	int			all = table->ri_NumIndices;
	LaInsertIndexes *indexes = palloc0(offsetof(LaInsertIndexes, collected) +
									   all * sizeof(LaInsertIndex));

	indexes->estate = estate;
	indexes->counters = counters;
	indexes->context = CurrentMemoryContext;
	indexes->from_nothing = from_nothing;
	indexes->wants_rows = true;
	indexes->at_once = *table;
	indexes->at_once.ri_NumIndices = 0;
	indexes->at_once.ri_IndexRelationDescs = palloc_array(Relation, all);
	indexes->at_once.ri_IndexRelationInfo = palloc_array(IndexInfo *, all);
	for (int i = 0; i < all; i++)
		add_index(indexes, table->ri_IndexRelationDescs[i],
				  table->ri_IndexRelationInfo[i]);
	if (indexes->count == 0)
		return NULL;
	indexes->memory_kb = Max(work_mem / indexes->count, LEAST_MEMORY);
	return indexes;
}

static void
add_index(LaInsertIndexes *indexes, Relation index, IndexInfo *info)
{
	ResultRelInfo *at_once = &indexes->at_once;
	LaInsertIndex *collected;

	if (!can_collect(index, info))
	{
		at_once->ri_IndexRelationDescs[at_once->ri_NumIndices] = index;
		at_once->ri_IndexRelationInfo[at_once->ri_NumIndices++] = info;
		return;
	}
	collected = &indexes->collected[indexes->count++];
	collected->relation = index;
	collected->info = info;
}

/*
 * There are so many rows, whatever the planner has expected, that an index can be
 * built anew in less time.  What has been collected for it is forgotten.
 */
void
la_insert_indexes_expect_many(LaInsertIndexes *indexes)
{
	if (!indexes->from_nothing)
		return;
	indexes->wants_rows = indexes->at_once.ri_NumIndices > 0;
	for (int i = 0; i < indexes->count; i++)
	{
		LaInsertIndex *index = &indexes->collected[i];

		index->rebuild = la_insert_can_rebuild(indexes->at_once.ri_RelationDesc,
											   index->relation);
		if (index->rebuild)
			forget_collected(index);
		else
			indexes->wants_rows = true;
	}
}

static void
forget_collected(LaInsertIndex *index)
{
	if (index->sort != NULL)
		tuplesort_end(index->sort);
	index->sort = NULL;
	index->bytes = 0;
	index->full = false;
}

/*
 * May entries wait?  Only a btree that is core's, without constraints that are checked
 * later.
 */
static bool
can_collect(Relation index, const IndexInfo *info)
{
	return index->rd_rel->relam == BTREE_AM_OID &&
		index->rd_indam->aminsert == btinsert &&
		info->ii_ReadyForInserts &&
		info->ii_ExclusionOps == NULL &&
		(!index->rd_index->indisunique || index->rd_index->indimmediate);
}

/*
 * A row is in the table.
 */
void
la_insert_indexes_add(LaInsertIndexes *indexes, TupleTableSlot *row)
{
	ExprContext *context = GetPerTupleExprContext(indexes->estate);

	context->ecxt_scantuple = row;
	for (int i = 0; i < indexes->count; i++)
	{
		LaInsertIndex *index = &indexes->collected[i];

		if (!index->rebuild && has_entry(index, indexes->estate, context))
			collect(indexes, index, row);
	}
}

/*
 * Is the row in context one of those that a partial index is for?
 */
static bool
has_entry(const LaInsertIndex *index, EState *estate, ExprContext *context)
{
	IndexInfo  *info = index->info;

	if (info->ii_Predicate == NIL)
		return true;
	if (info->ii_PredicateState == NULL)
		info->ii_PredicateState = ExecPrepareQual(info->ii_Predicate, estate);
	return ExecQual(info->ii_PredicateState, context);
}

static void
collect(LaInsertIndexes *indexes, LaInsertIndex *index, TupleTableSlot *row)
{
	TupleDesc	descriptor = RelationGetDescr(index->relation);
	Relation	table = indexes->at_once.ri_RelationDesc;
	Datum		values[INDEX_MAX_KEYS];
	bool		is_null[INDEX_MAX_KEYS];

	if (index->sort == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(indexes->context);

		index->sort = tuplesort_begin_index_btree(table, index->relation,
												  false, false,
												  indexes->memory_kb, NULL,
												  TUPLESORT_NONE);
		MemoryContextSwitchTo(caller);
	}
	FormIndexDatum(index->info, row, indexes->estate, values, is_null);
	tuplesort_putindextuplevalues(index->sort, index->relation, &row->tts_tid,
								  values, is_null);
	index->bytes += sizeof(IndexTupleData) + ENTRY_OVERHEAD +
		MAXALIGN(heap_compute_data_size(descriptor, values, is_null));
	if (index->bytes > most_bytes(indexes, index))
		indexes->full = index->full = true;
}

/*
 * How much is collected for an index before it is inserted.  Where temporary files are
 * limited there must be none, so the memory that the sort takes beside the entries, for
 * an array that doubles and the like, is left free.  Keys that have to be unique are
 * not left unchecked for longer than the statement has taken so far.
 */
static Size
most_bytes(const LaInsertIndexes *indexes, const LaInsertIndex *index)
{
	Size		memory = indexes->memory_kb * (Size) 1024;

	if (temp_file_limit >= 0)
		return memory / 4;
	if (!indexes->from_nothing)
		return memory;
	return index->relation->rd_index->indisunique ?
		Max(memory, index->inserted) : SIZE_MAX;
}

/*
 * Inserts what has been collected for indexes that have enough.  The rows must be where
 * their entries say.
 */
void
la_insert_indexes_flush_full(LaInsertIndexes *indexes)
{
	for (int i = 0; indexes->full && i < indexes->count; i++)
	{
		if (indexes->collected[i].full)
			insert_collected(indexes, &indexes->collected[i]);
	}
	indexes->full = false;
}

/*
 * All rows are in the table.
 */
void
la_insert_indexes_end(LaInsertIndexes *indexes)
{
	for (int i = 0; i < indexes->count; i++)
	{
		LaInsertIndex *index = &indexes->collected[i];

		if (index->sort != NULL)
			insert_collected(indexes, index);
		if (index->rebuild)
			la_insert_rebuild(indexes->at_once.ri_RelationDesc,
							  index->relation);
	}
}

static void
insert_collected(LaInsertIndexes *indexes, LaInsertIndex *index)
{
	IndexUniqueCheck check = index->relation->rd_index->indisunique ?
		UNIQUE_CHECK_YES : UNIQUE_CHECK_NO;
	IndexTuple	entry;

	tuplesort_performsort(index->sort);
	while ((entry = tuplesort_getindextuple(index->sort, true)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		_bt_doinsert(index->relation, entry, check, false,
					 indexes->at_once.ri_RelationDesc);
		indexes->counters->sorted++;
	}
	index->inserted += index->bytes;
	forget_collected(index);
}
