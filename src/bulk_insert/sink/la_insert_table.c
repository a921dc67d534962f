/*-------------------------------------------------------------------------
 *
 * la_insert_table.c
 *	  the table of a statement that inserts rows, partitioned or not
 *
 * Rows of partitions: la_insert_partitions.c.  Where all go into one table, a batch is inserted
 * by heap_multi_insert() until an insert has filled a few MB: being of one page at most, it puts
 * the rows where they would be if inserted one by one.  After that it becomes a new page: of a
 * file of this transaction's own, or of an extent.
 *
 * Reads ModifyTableState and ResultRelInfo of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/heaptoast.h"
#include "access/tableam.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

#include "bulk_insert/la_insert_feature.h"
#include "bulk_insert/page/la_insert_batch.h"
#include "bulk_insert/sink/la_insert_partitions.h"
#include "bulk_insert/sink/la_insert_table.h"

/*
 * A table that has no more pages when rows begin to be collected had few rows, or none,
 * before the statement.
 */
#define HARDLY_ANY_PAGES 4

/* As many as core lets wait, its MAX_BUFFERED_TUPLES. */
#define WAITING_LINES 1000

/*
 * Rows will be inserted into the table of this node.
 */
void
la_insert_table_begin(LaInsertTable *table, ModifyTableState *node)
{
	memset(table, 0, sizeof(*table));
	table->root = node->rootResultRelInfo;
	table->common.estate = node->ps.state;
	if (node->mt_partition_tuple_routing != NULL)
		table->route = la_insert_route_begin(node, &table->common);
	else
		la_insert_target_begin(&table->target, &table->common, table->root);
}

/*
 * The partition that the row is for, or the table; the row is one of it afterwards.
 *
 * Core gives a row to the table in a slot of the table's own kind.  What is in the columns
 * that a tuple lacks depends on that.  Mirrors ExecGetInsertNewTuple() in nodeModifyTable.c.
 */
static LaInsertTarget *
find_target(LaInsertTable *table, TupleTableSlot **row)
{
	if (unlikely(la_insert_row_is_short(*row)))
	{
		if (table->copy == NULL)
			table->copy = table_slot_create(table->root->ri_RelationDesc,
											&table->common.estate->es_tupleTable);
		if ((*row)->tts_ops != table->copy->tts_ops)
			*row = ExecCopySlot(table->copy, *row);
	}
	return table->route != NULL ? la_insert_route_find(table->route, row) :
		&table->target;
}

/*
 * Inserts a row at once.  False when it, and what follows, must be left to core.
 */
bool
la_insert_table_insert(LaInsertTable *table, TupleTableSlot *row)
{
	LaInsertTarget *target = find_target(table, &row);

	if (target == NULL)
		return false;
	if (unlikely(target->checks_values))
		row = la_insert_target_form(target, row);
	la_insert_target_insert(target, la_insert_target_check(target, row));
	table->rows++;
	return true;
}

/*
 * From now on index entries are collected, too; from_nothing as for
 * la_insert_indexes_begin().
 */
static void
collect_entries(LaInsertTarget *target, bool from_nothing)
{
	LaInsertCommon *common = target->common;
	MemoryContext caller;

	if (target->relation->ri_NumIndices == 0)
		return;
	caller = MemoryContextSwitchTo(common->batch->context);
	target->indexes = la_insert_indexes_begin(target->relation, common->estate,
											  from_nothing, common->line != NULL,
											  common->counters);
	MemoryContextSwitchTo(caller);
}

/*
 * To be called whenever rows have been inserted.  Past the threshold index entries are
 * collected, and indexes of a table half of which is of this statement by now are built at the
 * end.
 *
 * From then on pages are appended to a file of this transaction's own, rather than taken from an
 * extent.  Rows that have to be found by their index entries, or by triggers, must be in shared
 * buffers, and nobody else may insert into the table meanwhile: an immutable function may call a
 * volatile one.  Of operator classes it is believed (la_insert_file.c).
 */
static void
look_at_threshold(LaInsertTable *table)
{
	LaInsertTarget *target = &table->target;
	LaInsertCommon *common = &table->common;
	Relation	relation = common->batch->table;

	Assert(common->batch->image.rows == 0 && table->file == NULL);
	if (!la_insert_past_threshold(common) ||
		la_insert_target_fills_extension(target))
		return;
	if (!table->expects_many_rows)
	{
		table->expects_many_rows = true;
		if (target->indexes == NULL)
			collect_entries(target,
							RelationGetNumberOfBlocks(relation) * (uint64) BLCKSZ <=
							2 * common->bytes);
		if (target->indexes != NULL && !common->runs_user_code)
			la_insert_indexes_expect_many(target->indexes);
	}
	if (table->left_file || common->runs_user_code ||
		la_insert_target_has_followers(target) ||
		!la_insert_file_is_ours(relation))
		return;
	la_insert_target_end_bulk(target);
	table->file = la_insert_file_begin(common->batch,
									   common->estate->es_output_cid, 0,
									   common->counters);
}

/*
 * From now on rows may be collected; about so many bytes of them are expected, and
 * functions of users may be called for them.  Allocates in the current context.
 */
void
la_insert_table_collect(LaInsertTable *table, LaCounters *counters,
						bool runs_user_code, double bytes)
{
	LaInsertCommon *common = &table->common;
	Relation	relation = table->root->ri_RelationDesc;

	common->counters = counters;
	common->runs_user_code = runs_user_code;
	common->flush_context = AllocSetContextCreate(CurrentMemoryContext,
												  "pg_lookahead insert: batch",
												  ALLOCSET_DEFAULT_SIZES);
	common->batch = la_insert_batch_begin(relation, common->line);
	table->flushed = table->rows;
	if (table->route != NULL)
	{
		la_insert_partitions_collect(table->route);
		return;
	}
	la_insert_target_collect(&table->target);
	if (bytes >= la_insert_threshold() &&
		RelationGetNumberOfBlocks(relation) <= HARDLY_ANY_PAGES)
		collect_entries(&table->target, true);
	look_at_threshold(table);
}

/*
 * A row whose values must be toasted, or that is too long.  Core does that, or says
 * so, when it inserts the row; for a page of ours it is done before.
 */
static void
add_wide(LaInsertTable *table, TupleTableSlot *row)
{
	LaInsertTarget *target = &table->target;
	LaInsertBatch *batch = table->common.batch;

	if (la_insert_may_toast(batch->table) &&
		la_insert_target_ensure_page(target, TOAST_TUPLE_TARGET))
	{
		HeapTuple	tuple = la_insert_toast(batch, batch->table, row, 0);

		while (la_insert_image_add_tuple(&batch->image, batch->spare, tuple->t_data,
										 tuple->t_len) == LA_INSERT_FULL)
			la_insert_target_flush_page(target);
		return;
	}
	la_insert_extent_pass(&target->extent);
	if (batch->image.rows > 0)
		la_insert_target_flush_rest(target);
	la_insert_target_insert(target, row);
	table->common.bytes += TOAST_TUPLE_TARGET;
	look_at_threshold(table);
}

/*
 * Adds a row to those that are collected, which are inserted when it is on another
 * page than they.
 */
static void
add_plain(LaInsertTable *table, TupleTableSlot *row)
{
	LaInsertBatch *batch = table->common.batch;
	LaInsertRoom room = LA_INSERT_FULL;

	if (table->file == NULL)
		room = la_insert_image_add(&batch->image, batch->spare, row);
	if (table->file == NULL && room == LA_INSERT_FULL)
	{
		la_insert_target_flush_page(&table->target);
		look_at_threshold(table);
		if (table->file == NULL)
			room = la_insert_image_add(&batch->image, batch->spare, row);
	}
	if (table->file != NULL && !la_insert_file_add(table->file, row))
	{
		/* It goes to shared buffers, as do those that follow. */
		la_insert_file_end(table->file);
		table->file = NULL;
		table->left_file = true;
		room = LA_INSERT_WIDE;
	}
	if (room == LA_INSERT_WIDE)
		add_wide(table, row);
}

/*
 * Have as many rows come since the last flush as there were before it?  Then those that wait are
 * inserted, so that a duplicate is found after twice as many rows as in core at most.  Of a COPY
 * some wait at least, as in core.  Rows of partitions without indexes wait on.
 */
static bool
wants_flush(const LaInsertTable *table)
{
	uint64		least = table->common.line == NULL ? 1 : WAITING_LINES;
	uint64		flushed = table->flushed;

	if (table->route == NULL)
		flushed = table->rows - table->common.batch->image.rows;
	else if (!table->route->has_indexes)
		return false;
	return table->rows - flushed >= Max(flushed, least);
}

/*
 * Inserts all rows that wait.
 */
void
la_insert_table_flush(LaInsertTable *table)
{
	LaInsertTarget *target = &table->target;

	if (table->route != NULL)
		la_insert_partitions_flush(table->route);
	else if (table->file == NULL && table->common.batch->image.rows > 0)
	{
		if (target->extent.next < target->extent.end)
			la_insert_target_flush_page(target);
		else
		{
			la_insert_extent_pass(&target->extent);
			la_insert_target_flush_rest(target);
		}
	}
	table->flushed = table->rows;
}

/*
 * Adds a row to those that are collected.  False when it must be left to core, of an INSERT with
 * all that follow, of a COPY alone (insert_single() in la_copy_rows.c): then it has not been added.
 */
bool
la_insert_table_add(LaInsertTable *table, TupleTableSlot *row)
{
	LaInsertTarget *target = find_target(table, &row);
	bool	   *quotes_line = table->common.quotes_line;
	bool		quoted = quotes_line != NULL && *quotes_line;

	if (target == NULL)
		return false;
	row = la_insert_target_check(target, row);
	/* What a flush finds is about rows before, not about this line. */
	if (quotes_line != NULL)
		*quotes_line = false;
	if (table->route != NULL)
		la_insert_partitions_add(table->route, target, row);
	else
		add_plain(table, row);
	table->rows++;
	if (wants_flush(table))
		la_insert_table_flush(table);
	if (target->generated != NULL)
		ExecClearTuple(target->generated);
	if (quotes_line != NULL)
		*quotes_line = quoted;
	return true;
}

/*
 * There are no more rows, or none that may be collected.
 */
void
la_insert_table_end(LaInsertTable *table)
{
	la_insert_table_flush(table);
	if (table->route != NULL)
		la_insert_partitions_end(table->route);
	else
	{
		if (table->file != NULL)
			la_insert_file_end(table->file);
		la_insert_target_end(&table->target);
	}
	if (table->common.strategy != NULL)
		FreeAccessStrategy(table->common.strategy);
	table->common.strategy = NULL;
}
