/*-------------------------------------------------------------------------
 *
 * la_insert_index.c
 *	  index entries of inserted rows, collected and sorted
 *
 * Entries that come in the order of the index find the page before in the processor's
 * cache, and the way to it; in random order each costs more than its row.  So
 * entries for btrees are sorted before they are inserted, by core's own functions:
 * as many as fit into work_mem at a time, or, when the table had hardly any rows, into
 * shared buffers, with temporary files.  In that case an index whose file is of our own making
 * is not told of rows any more once there are many, and built at the end.
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
 * When the files of a table and of its index are of this subtransaction's own making,
 * nobody else can see them, and should it fail they are gone.  So the index's can be
 * emptied and built by one scan of the table, as core does when such a
 * table is truncated.  The condition mirrors ExecuteTruncateGuts() in tablecmds.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/itup.h"
#include "access/nbtree.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/storage.h"
#include "commands/tablecmds.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "bulk_insert/entries/la_insert_index.h"
#include "index_build/la_build.h"
#include "la_feature.h"

/* Least memory of a sort, in kB: the least that work_mem can be. */
#define LEAST_MEMORY 64

/* As much is collected of keys that have to be unique in any case: some 800 numbers. */
#define LEAST_UNCHECKED ((Size) 64 * 1024)

/*
 * Bytes that an entry takes in memory beside its own, at most: the sort's array of SortTuple
 * (tuplesort.h) doubles.
 */
#define ENTRY_OVERHEAD (2 * sizeof(SortTuple))

static void
add_index(LaInsertIndexes *indexes, Relation index, IndexInfo *info,
		  bool at_once)
{
	ResultRelInfo *others = &indexes->at_once;
	LaInsertIndex *collected;

	/*
	 * Only a btree that is core's, without constraints that are checked
	 * later.
	 */
	if (at_once || index->rd_rel->relam != BTREE_AM_OID ||
		index->rd_indam->aminsert != btinsert || !info->ii_ReadyForInserts ||
		info->ii_ExclusionOps != NULL ||
		(index->rd_index->indisunique && !index->rd_index->indimmediate))
	{
		others->ri_IndexRelationDescs[others->ri_NumIndices] = index;
		others->ri_IndexRelationInfo[others->ri_NumIndices++] = info;
		return;
	}
	collected = &indexes->collected[indexes->count++];
	collected->relation = index;
	collected->info = info;
}

/*
 * Collects entries of rows of a table, whose indexes are open, from now on.  NULL
 * when it has no index for that.  from_nothing says that the table had hardly any rows
 * before, tells_lines that errors name the line of the input that a row comes from: then keys
 * are checked row by row.  Allocates in the current context.
 */
LaInsertIndexes *
la_insert_indexes_begin(ResultRelInfo *table, EState *estate, bool from_nothing,
						bool tells_lines, LaCounters *counters)
{
	int			all = table->ri_NumIndices;
	LaInsertIndexes *indexes = palloc0(offsetof(LaInsertIndexes, collected) +
									   all * sizeof(LaInsertIndex));

	indexes->estate = estate;
	indexes->counters = counters;
	indexes->context = CurrentMemoryContext;
	indexes->from_nothing = from_nothing;
	indexes->tells_lines = tells_lines;
	indexes->wants_rows = true;
	indexes->at_once = *table;
	indexes->at_once.ri_NumIndices = 0;
	indexes->at_once.ri_IndexRelationDescs = palloc_array(Relation, all);
	indexes->at_once.ri_IndexRelationInfo = palloc_array(IndexInfo *, all);
	for (int i = 0; i < all; i++)
	{
		Relation	index = table->ri_IndexRelationDescs[i];

		add_index(indexes, index, table->ri_IndexRelationInfo[i],
				  tells_lines && index->rd_index->indisunique);
	}
	if (indexes->count == 0)
		return NULL;
	indexes->memory_kb = Max(work_mem / indexes->count, LEAST_MEMORY);
	return indexes;
}

/*
 * In an error handler: turns the error of an index build that has found a key twice into
 * that of an insert, but not one that a function of the index has raised.  Its detail says
 * that the key "is duplicated".  Mirrors the error of _bt_check_unique() in nbtinsert.c.
 */
static void
report_as_insert(Relation table, Relation index, MemoryContext context)
{
	const char *name = RelationGetRelationName(index);
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	if (!index->rd_index->indisunique || error->constraint_name == NULL ||
		strcmp(error->constraint_name, name) != 0)
		return;
	FlushErrorState();
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("duplicate key value violates unique constraint \"%s\"", name),
			 error->detail != NULL ? errdetail_internal("%s", error->detail) : 0,
			 errtableconstraint(table, name)));
}

/*
 * Builds an index anew.  Uses up to maintenance_work_mem.  Mirrors RelationTruncateIndexes() in
 * heap.c, but that the planner's statistics stay as they are: an insert does not change them.
 */
static void
rebuild_index(Relation table, Relation index)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "pg_lookahead insert: index",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);

	PG_TRY();
	{
		CheckTableNotInUse(index, "INSERT");
		RelationTruncate(index, 0);
		if (index->rd_amcache != NULL)
		{
			pfree(index->rd_amcache);
			index->rd_amcache = NULL;
		}
		la_build(table, index, BuildIndexInfo(index));
	}
	PG_CATCH();
	{
		if (geterrcode() == ERRCODE_UNIQUE_VIOLATION)
			report_as_insert(table, index, caller);
		PG_RE_THROW();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}

/*
 * Reads RelationData of rel.h.
 */
static bool
is_of_this_subtransaction(Relation relation)
{
	SubTransactionId current = GetCurrentSubTransactionId();

	return relation->rd_createSubid == current ||
		relation->rd_newRelfilelocatorSubid == current;
}

/*
 * May an index be built anew at the end of an insert?  Not one that somebody else in
 * this process has open, to scan it; the caller knows that nobody will open it.  Not where
 * temporary files are limited, either, which an insert of core's does not need.
 */
static bool
can_rebuild(Relation table, Relation index)
{
	return index->rd_refcnt == 1 && temp_file_limit < 0 &&
		is_of_this_subtransaction(table) && is_of_this_subtransaction(index) &&
		la_feature_enabled(LA_FEATURE_INDEX_BUILD);
}

static void
forget_collected(LaInsertIndex *index)
{
	if (index->sort != NULL)
		tuplesort_end(index->sort);
	index->sort = NULL;
	index->bytes = 0;
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

/*
 * There are so many rows, whatever the planner has expected, that an index can be
 * built anew in less time.  What has been collected for it is forgotten, but for keys that
 * have to be unique: those are checked.
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

		/* Errors of what is evaluated for an index come at the end then. */
		index->rebuild = (!indexes->tells_lines ||
						  (index->info->ii_Expressions == NIL &&
						   index->info->ii_Predicate == NIL)) &&
			can_rebuild(indexes->at_once.ri_RelationDesc,
						index->relation);
		if (!index->rebuild)
			indexes->wants_rows = true;
		else if (index->sort != NULL && index->relation->rd_index->indisunique)
			insert_collected(indexes, index);
		else
			forget_collected(index);
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

/*
 * Memory that an entry takes in a sort, at most.  Mirrors index_form_tuple_context() in
 * indextuple.c, which fetches values that are stored out of line, but not that it
 * compresses others.
 */
static Size
entry_bytes(Relation index, const Datum *values, const bool *is_null)
{
	TupleDesc	descriptor = RelationGetDescr(index);
	Size		bytes = ENTRY_OVERHEAD + sizeof(IndexTupleData) +
		sizeof(IndexAttributeBitMapData) +
		heap_compute_data_size(descriptor, values, is_null);

	for (int i = 0; i < descriptor->natts; i++)
	{
		if (!is_null[i] && TupleDescCompactAttr(descriptor, i)->attlen == -1 &&
			VARATT_IS_EXTERNAL(DatumGetPointer(values[i])))
			bytes += VARHDRSZ + toast_datum_size(values[i]);
	}
	return MAXALIGN(bytes);
}

/*
 * How much is collected for an index before it is inserted: what memory has room for, and
 * no temporary files, which core's insert does not need.  But where the index had hardly any
 * entries as many as make an index that fits into shared buffers: if they are all, each
 * goes behind the one before; if not, an index that no longer fits there is gone
 * through for many of them.
 *
 * Keys that have to be unique are not left unchecked for longer than it took to collect
 * those before: a duplicate is found after twice as many rows as in core, and a few.
 */
static Size
most_bytes(const LaInsertIndexes *indexes, const LaInsertIndex *index)
{
	Size		most = indexes->memory_kb * (Size) 1024;

	if (indexes->from_nothing && temp_file_limit < 0)
		most = Max(most, (Size) NBuffers * BLCKSZ / indexes->count);
	if (index->relation->rd_index->indisunique)
		most = Min(most, Max(index->inserted, LEAST_UNCHECKED));
	return most;
}

/*
 * Begins to collect.  A sort whose entries are to stay in memory may use twice as much: what
 * its array has over, and a little that is always there, is not counted.
 */
static void
begin_sort(LaInsertIndexes *indexes, LaInsertIndex *index)
{
	MemoryContext caller = MemoryContextSwitchTo(indexes->context);
	int			memory_kb = indexes->memory_kb;

	index->most_bytes = most_bytes(indexes, index);
	if (index->most_bytes <= memory_kb * (Size) 1024)
		memory_kb = Min(memory_kb, MAX_KILOBYTES / 2) * 2;
	index->sort = tuplesort_begin_index_btree(indexes->at_once.ri_RelationDesc,
											  index->relation, false, false,
											  memory_kb, NULL, TUPLESORT_NONE);
	MemoryContextSwitchTo(caller);
}

static void
collect_entry(LaInsertIndexes *indexes, LaInsertIndex *index, TupleTableSlot *row)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		is_null[INDEX_MAX_KEYS];
	Size		bytes;

	FormIndexDatum(index->info, row, indexes->estate, values, is_null);
	bytes = entry_bytes(index->relation, values, is_null);
	if (bytes > BTMaxItemSize)
	{
		/* One that may be too large is refused when its row comes. */
		index_insert(index->relation, values, is_null, &row->tts_tid,
					 indexes->at_once.ri_RelationDesc,
					 index->relation->rd_index->indisunique ?
					 UNIQUE_CHECK_YES : UNIQUE_CHECK_NO, false, index->info);
		return;
	}
	if (index->sort != NULL && index->bytes + bytes > index->most_bytes)
		insert_collected(indexes, index);
	if (index->sort == NULL)
		begin_sort(indexes, index);
	tuplesort_putindextuplevalues(index->sort, index->relation, &row->tts_tid,
								  values, is_null);
	index->bytes += bytes;
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
			collect_entry(indexes, index, row);
	}
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
			rebuild_index(indexes->at_once.ri_RelationDesc,
						  index->relation);
	}
}
