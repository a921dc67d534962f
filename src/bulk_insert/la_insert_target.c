/*-------------------------------------------------------------------------
 *
 * la_insert_target.c
 *	  the table that rows are inserted into
 *
 * What happens to a row mirrors ExecInsert() in nodeModifyTable.c, in its
 * order, but that a batch of rows goes through the table, then its index entries
 * are made row by row, with their AFTER triggers queued.
 *
 * A batch is inserted by heap_multi_insert() until an insert has filled a few MB: being of
 * one page at most, it puts the rows where they would be if inserted one by one.  After
 * that it becomes a new page: of a file of this transaction's own, or of an extent.
 *
 * Reads ResultRelInfo of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/heaptoast.h"
#include "access/tableam.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

#include "bulk_insert/la_insert_feature.h"
#include "bulk_insert/la_insert_page.h"
#include "bulk_insert/la_insert_target.h"
#include "bulk_insert/la_insert_wide.h"

/*
 * A table that has no more pages when rows begin to be collected had few rows, or none,
 * before the statement.
 */
#define HARDLY_ANY_PAGES 4

static void expect_many_rows(LaInsertTarget *target);
static bool has_mostly_new_rows(const LaInsertTarget *target);
static void collect_entries(LaInsertTarget *target, bool from_nothing);
static bool appends(LaInsertTarget *target);
static void add_wide(LaInsertTarget *target, TupleTableSlot *row);
static bool past_threshold(const LaInsertTarget *target);
static void flush_for_wide(void *arg, bool last);
static void flush_page(LaInsertTarget *target, bool last);
static void flush(LaInsertTarget *target, Buffer buffer, bool last);
static void insert_by_core(LaInsertBatch *batch, TupleTableSlot **slots,
						   CommandId cid);
static void finish_rows(LaInsertTarget *target, TupleTableSlot **slots,
						bool placed);
static void finish_row(LaInsertTarget *target, TupleTableSlot *row);
static bool has_followers(const LaInsertTarget *target);

/*
 * Rows will be inserted into this table.
 */
void
la_insert_target_begin(LaInsertTarget *target, EState *estate,
					   ResultRelInfo *relation)
{
	Relation	table = relation->ri_RelationDesc;
	const TupleConstr *constraints = table->rd_att->constr;

	memset(target, 0, sizeof(*target));
	target->estate = estate;
	target->relation = relation;
	if (table->rd_rel->relhasindex && relation->ri_IndexRelationDescs == NULL)
		ExecOpenIndices(relation, false);
	if (constraints != NULL && constraints->has_generated_stored)
		target->generated = table_slot_create(table, &estate->es_tupleTable);
}

/*
 * Gives a row its generated columns, and checks it against the table's constraints.
 * Returns the row, maybe in another slot.
 */
TupleTableSlot *
la_insert_target_check(LaInsertTarget *target, TupleTableSlot *row)
{
	ResultRelInfo *relation = target->relation;
	Relation	table = relation->ri_RelationDesc;

	if (target->generated != NULL)
	{
		ExecCopySlot(target->generated, row);
		row = target->generated;
		ExecMaterializeSlot(row);
		row->tts_tableOid = RelationGetRelid(table);
		ExecComputeStoredGenerated(relation, target->estate, row, CMD_INSERT);
	}
	row->tts_tableOid = RelationGetRelid(table);
	if (table->rd_att->constr != NULL)
		ExecConstraints(relation, row, target->estate);
	if (table->rd_rel->relispartition)
		ExecPartitionCheck(relation, row, target->estate, true);
	return row;
}

/*
 * Inserts a row at once.
 */
void
la_insert_target_insert(LaInsertTarget *target, TupleTableSlot *row)
{
	table_tuple_insert(target->relation->ri_RelationDesc, row,
					   target->estate->es_output_cid, 0, NULL);
	finish_row(target, row);
}

/*
 * From now on rows may be collected; about so many bytes of them are expected.  Allocates
 * in the current context.
 */
void
la_insert_target_collect(LaInsertTarget *target, LaCounters *counters,
						 double bytes)
{
	Relation	table = target->relation->ri_RelationDesc;

	target->counters = counters;
	target->flush_context = AllocSetContextCreate(CurrentMemoryContext,
												  "pg_lookahead insert: batch",
												  ALLOCSET_DEFAULT_SIZES);
	target->batch = la_insert_batch_begin(table);
	la_insert_extent_begin(&target->extent, table, counters);
	if (bytes >= la_insert_threshold() && target->relation->ri_NumIndices > 0 &&
		RelationGetNumberOfBlocks(table) <= HARDLY_ANY_PAGES)
		collect_entries(target, true);
}

/*
 * Past the threshold, once: from now on index entries are collected, and indexes of a
 * table that is mostly of this statement's rows by now are built at the end.
 */
static void
expect_many_rows(LaInsertTarget *target)
{
	if (target->expects_many_rows || !past_threshold(target))
		return;
	target->expects_many_rows = true;
	if (target->indexes == NULL)
		collect_entries(target, has_mostly_new_rows(target));
	if (target->indexes != NULL && !target->runs_user_code)
		la_insert_indexes_expect_many(target->indexes);
}

/*
 * Is half of the table of this statement, by now?
 */
static bool
has_mostly_new_rows(const LaInsertTarget *target)
{
	Relation	table = target->relation->ri_RelationDesc;

	return RelationGetNumberOfBlocks(table) * (uint64) BLCKSZ <=
		2 * target->bytes;
}

/*
 * From now on index entries are collected, too; from_nothing as for
 * la_insert_indexes_begin().
 */
static void
collect_entries(LaInsertTarget *target, bool from_nothing)
{
	MemoryContext caller;

	if (target->relation->ri_NumIndices == 0)
		return;
	caller = MemoryContextSwitchTo(target->batch->context);
	target->indexes = la_insert_indexes_begin(target->relation, target->estate,
											  from_nothing, target->counters);
	MemoryContextSwitchTo(caller);
}

/*
 * Adds a row to those that are collected, which are inserted when it is on another
 * page than they.
 */
void
la_insert_target_add(LaInsertTarget *target, TupleTableSlot *row)
{
	LaInsertRoom room;

	if (target->file != NULL)
	{
		la_insert_file_add(target->file, row);
		return;
	}
	room = la_insert_batch_add(target->batch, row);
	if (room == LA_INSERT_FULL)
	{
		flush_page(target, true);
		expect_many_rows(target);
		if (appends(target))
		{
			la_insert_file_add(target->file, row);
			return;
		}
		room = la_insert_batch_add(target->batch, row);
	}
	if (room == LA_INSERT_WIDE)
		add_wide(target, row);
}

/*
 * Are pages appended to a file of this transaction's own?  Rows that have to be found
 * by their index entries, or by triggers, must be in shared buffers, and nobody else may
 * insert into the table meanwhile: a stable function may call a volatile one.
 */
static bool
appends(LaInsertTarget *target)
{
	Assert(target->batch->rows == 0);
	if (past_threshold(target) && !has_followers(target) &&
		!target->runs_user_code &&
		la_insert_file_is_ours(target->batch->table))
		target->file = la_insert_file_begin(target->batch,
											target->estate->es_output_cid, 0,
											target->counters);
	return target->file != NULL;
}

/*
 * A row whose values must be toasted, or that is too long.  Core does that, or says
 * so, when it inserts the row; for a page of ours it is done before.
 */
static void
add_wide(LaInsertTarget *target, TupleTableSlot *row)
{
	if (past_threshold(target) &&
		la_insert_extent_wants(&target->extent, TOAST_TUPLE_TARGET))
	{
		la_insert_add_wide(target->batch, row, 0, flush_for_wide, target);
		return;
	}
	la_insert_target_flush(target);
	la_insert_target_insert(target, row);
	target->bytes += TOAST_TUPLE_TARGET;
}

/*
 * LaInsertFlush.
 */
static void
flush_for_wide(void *arg, bool last)
{
	flush_page(arg, last);
}

/*
 * Has enough been inserted for pages of ours?
 */
static bool
past_threshold(const LaInsertTarget *target)
{
	return target->bytes >= la_insert_threshold();
}

/*
 * Inserts what has been collected, be it the last of the rows.
 */
void
la_insert_target_flush(LaInsertTarget *target)
{
	if (target->file != NULL || target->batch->rows == 0)
		return;
	if (target->batch->toasted || target->extent.next < target->extent.end)
		flush_page(target, true);
	else
		flush(target, InvalidBuffer, true);
}

/*
 * Inserts what has been collected, some rows, as a page of its own where that may be.
 * The caller says whether no row has been toasted that is not part of it.
 *
 * Rows that were toasted for a page of ours must get one: core would toast them
 * again.  So must those before a row that was toasted, because core would have
 * logical decoding forget its values.
 */
static void
flush_page(LaInsertTarget *target, bool last)
{
	const LaInsertBatch *batch = target->batch;
	Buffer		buffer = InvalidBuffer;

	if (past_threshold(target) &&
		la_insert_extent_wants(&target->extent, la_insert_batch_mean(batch)))
		buffer = la_insert_extent_take(&target->extent);
	if (!BufferIsValid(buffer) && (batch->toasted || !last))
		buffer = la_insert_extent_single(&target->extent);
	flush(target, buffer, last);
}

/*
 * Inserts what has been collected, some rows, into an empty page of ours if there is one.
 */
static void
flush(LaInsertTarget *target, Buffer buffer, bool last)
{
	LaInsertBatch *batch = target->batch;
	MemoryContext caller = MemoryContextSwitchTo(target->flush_context);
	TupleTableSlot **slots = NULL;

	if (!BufferIsValid(buffer) || has_followers(target))
		slots = la_insert_batch_slots(batch);
	if (BufferIsValid(buffer))
		la_insert_page_write(batch, buffer, target->estate->es_output_cid, last);
	else
		insert_by_core(batch, slots, target->estate->es_output_cid);
	if (has_followers(target))
		finish_rows(target, slots, BufferIsValid(buffer));
	if (target->indexes != NULL)
		la_insert_indexes_flush_full(target->indexes);
	target->bytes += la_insert_batch_bytes(batch);
	target->counters->rows += batch->rows;
	target->counters->batches++;
	la_insert_batch_reset(batch, batch->image);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(target->flush_context);
}

/*
 * Inserts rows where core finds room; the slots get their places.
 */
static void
insert_by_core(LaInsertBatch *batch, TupleTableSlot **slots, CommandId cid)
{
	if (batch->rows > 1)
		heap_multi_insert(batch->table, slots, batch->rows, cid, 0, NULL);
	else
	{
		/*
		 * For a row that leaves less room on a page than the fillfactor
		 * wants, heap_multi_insert() extends the table by two pages.
		 */
		heap_insert(batch->table, &batch->tuples[0], cid, 0, NULL);
		slots[0]->tts_tid = batch->tuples[0].t_self;
	}
}

/*
 * The rows of the batch are in the table; a page of ours has given them their place
 * in the batch, core in the slots.
 */
static void
finish_rows(LaInsertTarget *target, TupleTableSlot **slots, bool placed)
{
	for (int i = 0; i < target->batch->rows; i++)
	{
		if (placed)
			slots[i]->tts_tid = target->batch->tuples[i].t_self;
		ResetPerTupleExprContext(target->estate);
		finish_row(target, slots[i]);
	}
}

/*
 * A row is in the table: its index entries, and its AFTER triggers.
 */
static void
finish_row(LaInsertTarget *target, TupleTableSlot *row)
{
	ResultRelInfo *relation = target->indexes != NULL ?
		&target->indexes->at_once : target->relation;
	List	   *rechecks = NIL;

	if (relation->ri_NumIndices > 0)
		rechecks = ExecInsertIndexTuples(relation, row, target->estate,
										 false, false, NULL, NIL, false);
	if (target->indexes != NULL)
		la_insert_indexes_add(target->indexes, row);
	ExecARInsertTriggers(target->estate, target->relation, row, rechecks, NULL);
	list_free(rechecks);
}

/*
 * Is there something to be done for a row once it is in the table?
 */
static bool
has_followers(const LaInsertTarget *target)
{
	const TriggerDesc *triggers = target->relation->ri_TrigDesc;
	bool		indexes = target->indexes != NULL ?
		target->indexes->wants_rows : target->relation->ri_NumIndices > 0;

	return indexes || (triggers != NULL && triggers->trig_insert_after_row);
}

/*
 * All rows have been inserted.
 */
void
la_insert_target_end(LaInsertTarget *target)
{
	la_insert_target_flush(target);
	la_insert_extent_end(&target->extent);
	if (target->file != NULL)
		la_insert_file_end(target->file);
	if (target->indexes != NULL)
		la_insert_indexes_end(target->indexes);
}
