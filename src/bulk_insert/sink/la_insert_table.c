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

#include "bulk_insert/la_insert_feature.h"
#include "bulk_insert/page/la_insert_batch.h"
#include "bulk_insert/page/la_insert_row.h"
#include "bulk_insert/sink/la_insert_partitions.h"
#include "bulk_insert/sink/la_insert_table.h"

/*
 * A table that has no more pages when rows begin to be collected had few rows, or none,
 * before the statement.
 */
#define HARDLY_ANY_PAGES 4

/* As many as core lets wait, its MAX_BUFFERED_TUPLES. */
#define WAITING_LINES 1000

static LaInsertTarget *find(LaInsertTable *table, TupleTableSlot **row);
static TupleTableSlot *as_core_has_it(LaInsertTable *table, TupleTableSlot *row);
static void flush(LaInsertTable *table);
static void add_to_file(LaInsertTarget *target, TupleTableSlot *row);
static void look_at_threshold(LaInsertTarget *target);
static void collect_entries(LaInsertTarget *target, bool from_nothing);
static void add_wide(LaInsertTarget *target, TupleTableSlot *row);
static void flush_for_wide(void *arg);
static void add_plain(LaInsertTarget *target, TupleTableSlot *row);

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
 * Inserts a row at once.  False when it, and what follows, must be left to core.
 */
bool
la_insert_table_insert(LaInsertTable *table, TupleTableSlot *row)
{
	LaInsertTarget *target = find(table, &row);

	if (target == NULL)
		return false;
	la_insert_target_insert(target, la_insert_target_check(target, row));
	table->rows++;
	return true;
}

/*
 * The partition that the row is for, or the table; the row is one of it afterwards.
 */
static LaInsertTarget *
find(LaInsertTable *table, TupleTableSlot **row)
{
	if (unlikely(la_insert_row_is_short(*row)))
		*row = as_core_has_it(table, *row);
	if (table->route != NULL)
		return la_insert_route_find(table->route, row);
	return &table->target;
}

/*
 * Core gives a row to the table in a slot of the table's own kind.  What is in the columns
 * that a tuple lacks depends on that.  Mirrors ExecGetInsertNewTuple() in
 * nodeModifyTable.c.
 */
static TupleTableSlot *
as_core_has_it(LaInsertTable *table, TupleTableSlot *row)
{
	if (table->copy == NULL)
		table->copy = table_slot_create(table->root->ri_RelationDesc,
										&table->common.estate->es_tupleTable);
	return row->tts_ops == table->copy->tts_ops ? row :
		ExecCopySlot(table->copy, row);
}

/*
 * From now on rows may be collected; about so many bytes of them are expected, and
 * functions of users may be called for them.  Allocates in the current context.
 */
void
la_insert_table_collect(LaInsertTable *table, LaCounters *counters,
						bool runs_user_code, double bytes)
{
	Relation	relation = table->root->ri_RelationDesc;
	LaInsertTarget *target = &table->target;

	la_insert_common_collect(&table->common, relation, counters,
							 runs_user_code);
	table->flushed = table->rows;
	if (table->route != NULL)
	{
		la_insert_partitions_collect(table->route);
		return;
	}
	la_insert_target_collect(target);
	if (bytes >= la_insert_threshold() && target->relation->ri_NumIndices > 0 &&
		RelationGetNumberOfBlocks(relation) <= HARDLY_ANY_PAGES)
		collect_entries(target, true);
	look_at_threshold(target);
}

/*
 * Shall the rows that wait be inserted, because there came as many since none waited as
 * before?  So the indexes show a duplicate after twice as many rows as in core at most, be
 * there few rows for its partition among them.  Of lines of an input core lets some wait,
 * too.
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
 * Adds a row to those that are collected.  Batches grow as said above, up to a page, or what
 * there is memory for.  False when
 * the row must be left to core, which has not been added.
 */
bool
la_insert_table_add(LaInsertTable *table, TupleTableSlot *row)
{
	LaInsertTarget *target = find(table, &row);
	bool	   *quotes_line = table->common.quotes_line;
	bool		quoted = quotes_line != NULL && *quotes_line;

	if (target == NULL)
		return false;
	row = la_insert_target_check(target, row);
	if (quotes_line != NULL)
		*quotes_line = false;
	if (table->route != NULL)
		la_insert_partitions_add(table->route, target, row);
	else
		add_plain(target, row);
	table->rows++;
	if (wants_flush(table))
		flush(table);
	if (target->generated != NULL)
		ExecClearTuple(target->generated);
	if (quotes_line != NULL)
		*quotes_line = quoted;
	return true;
}

/*
 * Inserts all rows that wait.
 */
static void
flush(LaInsertTable *table)
{
	if (table->route != NULL)
		la_insert_partitions_flush(table->route);
	else
		la_insert_target_flush(&table->target);
	table->flushed = table->rows;
}

/*
 * Inserts all rows that wait, because one that is left to core comes after them: so there
 * are partitions.
 */
void
la_insert_table_interrupt(LaInsertTable *table)
{
	la_insert_partitions_interrupt(table->route);
	table->flushed = table->rows;
}

/*
 * There are no more rows, or none that may be collected.
 */
void
la_insert_table_end(LaInsertTable *table)
{
	if (table->route != NULL)
		la_insert_partitions_end(table->route);
	else
	{
		la_insert_target_flush(&table->target);
		la_insert_target_end(&table->target);
	}
	la_insert_common_end(&table->common);
}

/*
 * Adds a row to those that are collected, which are inserted when it is on another
 * page than they.
 */
static void
add_plain(LaInsertTarget *target, TupleTableSlot *row)
{
	LaInsertBatch *batch = target->common->batch;
	LaInsertRoom room;

	if (target->file != NULL)
	{
		add_to_file(target, row);
		return;
	}
	room = la_insert_image_add(&batch->image, batch->spare, row);
	if (room == LA_INSERT_FULL)
	{
		la_insert_target_flush_page(target);
		look_at_threshold(target);
		if (target->file != NULL)
		{
			add_to_file(target, row);
			return;
		}
		room = la_insert_image_add(&batch->image, batch->spare, row);
	}
	if (room == LA_INSERT_WIDE)
		add_wide(target, row);
}

/*
 * A row that is not for the file goes to shared buffers, as do those that follow.
 */
static void
add_to_file(LaInsertTarget *target, TupleTableSlot *row)
{
	if (la_insert_file_add(target->file, row))
		return;
	la_insert_file_end(target->file);
	target->file = NULL;
	target->left_file = true;
	add_wide(target, row);
}

/*
 * To be called whenever rows have been inserted.  Past the threshold index entries are
 * collected, and indexes of a table half of which is of this statement by now are built at the
 * end.
 *
 * From then on pages are appended to a file of this transaction's own, rather than taken from an
 * extent.  Rows that have to be found by their index entries, or by triggers, must be in shared
 * buffers, and nobody else may insert into the table meanwhile: a stable function may call a
 * volatile one.
 */
static void
look_at_threshold(LaInsertTarget *target)
{
	LaInsertCommon *common = target->common;
	Relation	table = target->relation->ri_RelationDesc;

	Assert(common->batch->image.rows == 0 && target->file == NULL);
	if (!la_insert_common_past_threshold(common) ||
		la_insert_target_fills_extension(target))
		return;
	if (!target->expects_many_rows)
	{
		target->expects_many_rows = true;
		if (target->indexes == NULL)
			collect_entries(target,
							RelationGetNumberOfBlocks(table) * (uint64) BLCKSZ <=
							2 * common->bytes);
		if (target->indexes != NULL && !common->runs_user_code)
			la_insert_indexes_expect_many(target->indexes);
	}
	if (target->left_file || common->runs_user_code ||
		la_insert_target_has_followers(target) ||
		!la_insert_file_is_ours(common->batch->table))
		return;
	la_insert_target_end_bulk(target);
	target->file = la_insert_file_begin(common->batch,
										common->estate->es_output_cid, 0,
										common->counters);
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
 * A row whose values must be toasted, or that is too long.  Core does that, or says
 * so, when it inserts the row; for a page of ours it is done before.
 */
static void
add_wide(LaInsertTarget *target, TupleTableSlot *row)
{
	LaInsertBatch *batch = target->common->batch;

	if (la_insert_may_toast(batch->table) &&
		la_insert_target_wants_page(target, TOAST_TUPLE_TARGET))
	{
		la_insert_add_wide(batch, row, 0, flush_for_wide, target);
		return;
	}
	if (batch->image.rows > 0)
		la_insert_target_flush_rest(target);
	la_insert_target_insert(target, row);
	target->common->bytes += TOAST_TUPLE_TARGET;
	look_at_threshold(target);
}

/*
 * LaInsertFlush.
 */
static void
flush_for_wide(void *arg)
{
	la_insert_target_flush_page(arg);
}
