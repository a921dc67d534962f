/*-------------------------------------------------------------------------
 *
 * la_insert_table.c
 *	  the table of a statement that inserts rows, partitioned or not
 *
 * Reads ModifyTableState and ResultRelInfo of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"

#include "bulk_insert/page/la_insert_row.h"
#include "bulk_insert/sink/la_insert_partitions.h"
#include "bulk_insert/sink/la_insert_plain.h"
#include "bulk_insert/sink/la_insert_table.h"

/* As many as core lets wait, its MAX_BUFFERED_TUPLES. */
#define WAITING_LINES 1000

static LaInsertTarget *find(LaInsertTable *table, TupleTableSlot **row);
static bool wants_flush(const LaInsertTable *table);
static TupleTableSlot *as_core_has_it(LaInsertTable *table, TupleTableSlot *row);
static void flush(LaInsertTable *table);

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
 * Rows come from lines of an input.  Errors are about the line that is named there, which
 * they quote if that is said; so when a row is in the table, its line is named.  Rows may wait
 * from the first one on.
 */
void
la_insert_table_tell_lines(LaInsertTable *table, uint64 *line,
						   bool *quotes_line)
{
	table->common.line = line;
	table->common.quotes_line = quotes_line;
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

	la_insert_common_collect(&table->common, relation, counters,
							 runs_user_code);
	table->flushed = table->rows;
	if (table->route != NULL)
		la_insert_partitions_collect(table->route);
	else
		la_insert_plain_collect(&table->target, bytes);
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
		la_insert_plain_add(target, row);
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
 * Why a row was left to core.
 */
LaReason
la_insert_table_reason(const LaInsertTable *table)
{
	return table->route->reason;
}

/*
 * The partition of a row that was left to core.
 */
ResultRelInfo *
la_insert_table_refused(const LaInsertTable *table)
{
	return table->route->refused;
}
