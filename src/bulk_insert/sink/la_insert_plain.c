/*-------------------------------------------------------------------------
 *
 * la_insert_plain.c
 *	  rows that all go into one table
 *
 * A batch is inserted by heap_multi_insert() until an insert has filled a few MB: being of
 * one page at most, it puts the rows where they would be if inserted one by one.  After
 * that it becomes a new page: of a file of this transaction's own, or of an extent.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heaptoast.h"
#include "storage/bufmgr.h"

#include "bulk_insert/la_insert_feature.h"
#include "bulk_insert/page/la_insert_wide.h"
#include "bulk_insert/sink/la_insert_plain.h"

/*
 * A table that has no more pages when rows begin to be collected had few rows, or none,
 * before the statement.
 */
#define HARDLY_ANY_PAGES 4

static void expect_many_rows(LaInsertTarget *target);
static void add_to_file(LaInsertTarget *target, TupleTableSlot *row);
static void look_at_threshold(LaInsertTarget *target);
static bool has_mostly_new_rows(const LaInsertTarget *target);
static void collect_entries(LaInsertTarget *target, bool from_nothing);
static bool may_append(const LaInsertTarget *target);
static void add_wide(LaInsertTarget *target, TupleTableSlot *row);
static void flush_for_wide(void *arg);

/*
 * From now on rows may be collected; about so many bytes of them are expected.
 */
void
la_insert_plain_collect(LaInsertTarget *target, double bytes)
{
	la_insert_target_collect(target);
	if (bytes >= la_insert_threshold() && target->relation->ri_NumIndices > 0 &&
		RelationGetNumberOfBlocks(target->relation->ri_RelationDesc) <=
		HARDLY_ANY_PAGES)
		collect_entries(target, true);
	look_at_threshold(target);
}

/*
 * Adds a row to those that are collected, which are inserted when it is on another
 * page than they.
 */
void
la_insert_plain_add(LaInsertTarget *target, TupleTableSlot *row)
{
	LaInsertBatch *batch = target->common->batch;
	LaInsertRoom room;

	if (target->file != NULL)
	{
		add_to_file(target, row);
		return;
	}
	room = la_insert_batch_add(batch, row);
	if (room == LA_INSERT_FULL)
	{
		la_insert_target_flush_page(target);
		look_at_threshold(target);
		if (target->file != NULL)
		{
			add_to_file(target, row);
			return;
		}
		room = la_insert_batch_add(batch, row);
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
 * To be called whenever rows have been inserted: past the threshold pages are appended to
 * a file of this transaction's own, rather than taken from an extent.
 */
static void
look_at_threshold(LaInsertTarget *target)
{
	LaInsertCommon *common = target->common;

	Assert(common->batch->image.rows == 0 && target->file == NULL);
	if (!la_insert_common_past_threshold(common) ||
		la_insert_target_fills_extension(target))
		return;
	if (!target->expects_many_rows)
		expect_many_rows(target);
	if (!may_append(target))
		return;
	la_insert_target_end_bulk(target);
	target->file = la_insert_file_begin(common->batch,
										common->estate->es_output_cid, 0,
										common->counters);
}

/*
 * Once: from now on index entries are collected, and indexes of a table that is mostly of
 * this statement's rows by now are built at the end.
 */
static void
expect_many_rows(LaInsertTarget *target)
{
	target->expects_many_rows = true;
	if (target->indexes == NULL)
		collect_entries(target, has_mostly_new_rows(target));
	if (target->indexes != NULL && !target->common->runs_user_code)
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
		2 * target->common->bytes;
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
 * May pages be appended to a file of this transaction's own?  Rows that have to be found
 * by their index entries, or by triggers, must be in shared buffers, and nobody else may
 * insert into the table meanwhile: a stable function may call a volatile one.
 */
static bool
may_append(const LaInsertTarget *target)
{
	return !target->left_file && !target->common->runs_user_code &&
		!la_insert_target_has_followers(target) &&
		la_insert_file_is_ours(target->common->batch->table);
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
