/*-------------------------------------------------------------------------
 *
 * la_copy_rows.c
 *	  the rows of a COPY FROM, from its input into the table
 *
 * Mirrors CopyFrom() in copyfrom.c, for tables whose rows it inserts in batches, in
 * its order.  Error messages are told in which line of the input a row was
 * (CopyFromErrorCallback()): with the line's text for what is found out when it is read, with
 * its number alone when the row goes into the table.
 *
 * Reads CopyFromStateData of copyfrom_internal.h, and ModifyTableState and ResultRelInfo of
 * execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "access/tableam.h"
#include "access/xact.h"
#include "commands/copyfrom_internal.h"
#include "commands/progress.h"
#include "commands/trigger.h"
#include "executor/execPartition.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "foreign/fdwapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "bulk_insert/judge/la_insert_relation.h"
#include "bulk_insert/judge/la_insert_search.h"
#include "bulk_insert/sink/la_insert_table.h"
#include "bulk_insert/source/la_copy.h"
#include "needed_partitions/la_needed_watch.h"
#include "statistics/la_stats.h"

/*
 * A COPY that is executed.
 */
typedef struct LaCopy
{
	CopyFromState state;
	EState	   *estate;
	ModifyTableState *node;		/* of no plan, for core's functions */
	ResultRelInfo *relation;
	ExprContext *context;		/* of the row that is read */
	TupleTableSlot *row;
	bool		runs_user_code; /* are functions of users called for a row? */
	uint64		rows;			/* inserted, or to be inserted */
	LaInsertTable into;
	MemoryContext collected;	/* memory of that */
	LaNeeded   *needed;			/* where partitions are created for rows, or
								 * NULL */
	LaCounters	counters;
} LaCopy;

/*
 * Opens the table.
 */
static void
open_table(LaCopy *copy)
{
	CopyFromState state = copy->state;
	ModifyTableState *node = makeNode(ModifyTableState);

	copy->estate = CreateExecutorState();
	ExecInitRangeTable(copy->estate, state->range_table, state->rteperminfos,
					   bms_make_singleton(1));
	copy->relation = makeNode(ResultRelInfo);
	ExecInitResultRelation(copy->estate, copy->relation, 1);
	CheckValidResultRel(copy->relation, CMD_INSERT, ONCONFLICT_NONE, NIL);
	ExecOpenIndices(copy->relation, false);

	node->ps.state = copy->estate;
	node->operation = CMD_INSERT;
	node->mt_nrels = 1;
	node->resultRelInfo = copy->relation;
	node->rootResultRelInfo = copy->relation;
	copy->node = node;
}

/*
 * Why a COPY that has begun is left to core: a function that is called for a row could look for
 * the rows before.  What makes a row of the input is called besides the table's own.  Tells,
 * too, whether functions are called that are not the server's.
 */
static LaReason
judge_copy(CopyFromState state, const ResultRelInfo *target, bool *runs_user_code)
{
	TupleDesc	descriptor = RelationGetDescr(state->rel);
	List	   *expressions = NIL;
	LaInsertSearch search = {0};
	LaInsertCalls calls;
	ListCell   *lc;

	/* Core sets no column that was dropped, not even to NULL. */
	for (int i = 0; i < descriptor->natts; i++)
	{
		if (!TupleDescAttr(descriptor, i)->attisdropped &&
			state->defexprs[i] != NULL)
			expressions = lappend(expressions, state->defexprs[i]->expr);
	}

	/* Input functions of columns that are read are called. */
	foreach(lc, state->attnumlist)
	{
		if (la_insert_search_type(&search,
								  TupleDescAttr(descriptor, lfirst_int(lc) - 1)->atttypid))
			return LA_REASON_VOLATILE;
	}
	if ((state->need_transcoding &&
		 la_insert_search_function(&search, state->conversion_proc)) ||
		la_insert_search((Node *) expressions, &search))
		return LA_REASON_VOLATILE;
	calls = la_insert_calls(target);
	*runs_user_code = Max(calls, la_insert_search_result(&search)) != LA_CALLS_CORE;
	return calls == LA_CALLS_SEEING ? LA_REASON_VOLATILE : LA_REASON_NONE;
}

/*
 * Rows will come.
 */
static void
prepare_rows(LaCopy *copy)
{
	CopyFromState state = copy->state;
	EState	   *estate = copy->estate;

	la_copy_read_plain_lines(state);
	estate->es_output_cid = GetCurrentCommandId(true);
	AfterTriggerBeginQuery();
	if (state->rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		copy->node->mt_partition_tuple_routing =
			ExecSetupPartitionTupleRouting(estate, state->rel);
	copy->needed = la_needed_watch(copy->node);
	copy->context = CreateExprContext(estate);
	copy->row = ExecInitExtraTupleSlot(estate, RelationGetDescr(state->rel),
									   &TTSOpsVirtual);
	ExecBSInsertTriggers(estate, copy->relation);
}

/*
 * Closes the table, and frees what belongs to the copy.
 */
static void
close_table(LaCopy *copy)
{
	EState	   *estate = copy->estate;

	ExecResetTupleTable(estate->es_tupleTable, false);
	if (copy->node->mt_partition_tuple_routing != NULL)
		ExecCleanupTupleRouting(copy->node,
								copy->node->mt_partition_tuple_routing);
	ExecCloseResultRelations(estate);
	ExecCloseRangeTableRelations(estate);
	FreeExecutorState(estate);
}

/*
 * Reads the next row.  False when there is none.  The row stays where it is longer than what
 * is evaluated for those before.
 */
static bool
next_row(LaCopy *copy)
{
	TupleTableSlot *row = copy->row;
	MemoryContext caller;
	bool		found;

	CHECK_FOR_INTERRUPTS();
	ResetPerTupleExprContext(copy->estate);
	ResetExprContext(copy->context);
	caller = MemoryContextSwitchTo(copy->context->ecxt_per_tuple_memory);
	ExecClearTuple(row);
	found = NextCopyFrom(copy->state, copy->context, row->tts_values,
						 row->tts_isnull);
	MemoryContextSwitchTo(caller);
	if (!found)
		return false;
	ExecStoreVirtualTuple(row);
	row->tts_tableOid = RelationGetRelid(copy->state->rel);
	return true;
}

/*
 * From now on rows are collected.  How many bytes is known of a file.
 */
static void
begin_collecting(LaCopy *copy)
{
	const CopyFromState state = copy->state;
	LaInsertTable *into = &copy->into;
	MemoryContext caller = CurrentMemoryContext;
	struct stat file = {0};

	if (state->filename != NULL && !state->is_program)
		(void) fstat(fileno(state->copy_file), &file);
	copy->collected = AllocSetContextCreate(copy->estate->es_query_cxt,
											"pg_lookahead copy: rows",
											ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(copy->collected);
	la_insert_table_begin(into, copy->node);
	into->common.line = &state->cur_lineno;
	into->common.quotes_line = &state->line_buf_valid;
	la_insert_table_collect(into, &copy->counters, copy->runs_user_code,
							file.st_size);
	MemoryContextSwitchTo(caller);
}

/*
 * Inserts rows that wait: an error is not about the line that was read last.
 */
static void
quote_no_line(LaCopy *copy, void (*insert) (LaInsertTable *table))
{
	bool		quotes_line = copy->state->line_buf_valid;

	copy->state->line_buf_valid = false;
	insert(&copy->into);
	copy->state->line_buf_valid = quotes_line;
}

/*
 * The row as one of the partition.  Where core has rows wait, it has them as tuples of the
 * partition, whose system columns a trigger can ask for.  Where it inserts them one by one,
 * this depends on the partition's columns.
 */
static TupleTableSlot *
as_core_has_it(EState *estate, ResultRelInfo *partition, bool triggered,
			   TupleTableSlot *row)
{
	TupleConversionMap *map = ExecGetRootToChildMap(partition, estate);

	if (map != NULL)
		return execute_attr_map_slot(map->attrMap, row,
									 partition->ri_PartitionTupleSlot);
	if (triggered || partition->ri_FdwRoutine != NULL)
		return row;
	if (partition->ri_PartitionTupleSlot == NULL)
		partition->ri_PartitionTupleSlot =
			table_slot_create(partition->ri_RelationDesc, &estate->es_tupleTable);
	return ExecCopySlot(partition->ri_PartitionTupleSlot, row);
}

/*
 * Puts a row, which has been checked, into a partition.  False when the foreign data wrapper
 * has decided that it is not inserted.
 */
static bool
insert_into_partition(EState *estate, ResultRelInfo *partition, TupleTableSlot *row)
{
	Relation	table = partition->ri_RelationDesc;
	List	   *rechecks = NIL;

	if (partition->ri_FdwRoutine != NULL)
	{
		row = partition->ri_FdwRoutine->ExecForeignInsert(estate, partition,
														  row, NULL);
		if (row == NULL)
			return false;
		row->tts_tableOid = RelationGetRelid(table);
	}
	else
	{
		table_tuple_insert(table, row, estate->es_output_cid, 0, NULL);
		if (partition->ri_NumIndices > 0)
			rechecks = ExecInsertIndexTuples(partition, row, estate, false,
											 false, NULL, NIL, false);
	}
	ExecARInsertTriggers(estate, partition, row, rechecks, NULL);
	list_free(rechecks);
	return true;
}

/*
 * The row is for a partition whose rows must not wait, and must find those before: it has
 * triggers that are called for a row before it is in the table, and the like.  It may be a
 * foreign table, too, here and in the two functions above: one that was attached since
 * la_copy.c looked for such.  Mirrors CopyFrom() in copyfrom.c, where it inserts rows of a
 * partition one by one.  A trigger may have made it a row of another partition.  False when
 * it is not inserted.
 */
static bool
insert_single(LaCopy *copy)
{
	EState	   *estate = copy->estate;
	ResultRelInfo *partition = copy->into.route->refused;
	const TupleConstr *constraints = partition->ri_RelationDesc->rd_att->constr;
	bool		triggered = partition->ri_TrigDesc != NULL &&
		partition->ri_TrigDesc->trig_insert_before_row;
	TupleTableSlot *row;

	quote_no_line(copy, la_insert_table_flush);
	row = as_core_has_it(estate, partition, triggered, copy->row);
	row->tts_tableOid = RelationGetRelid(partition->ri_RelationDesc);
	if (triggered && !ExecBRInsertTriggers(estate, partition, row))
		return false;
	if (constraints != NULL && constraints->has_generated_stored)
		ExecComputeStoredGenerated(partition, estate, row, CMD_INSERT);
	if (constraints != NULL && partition->ri_FdwRoutine == NULL)
		ExecConstraints(partition, row, estate);
	if (triggered)
		ExecPartitionCheck(partition, row, estate, true);
	return insert_into_partition(estate, partition, row);
}

/*
 * Core lets rows wait from the first one on, and so do we.
 */
static void
insert_rows(LaCopy *copy)
{
	if (!next_row(copy))
		return;
	copy->counters.scans++;
	begin_collecting(copy);
	do
	{
		if (unlikely(copy->needed != NULL) &&
			la_needed_lacks(copy->needed, NULL, copy->row))
		{
			/* Rows before it find their partitions by the routing of before. */
			quote_no_line(copy, la_insert_table_end);
			MemoryContextDelete(copy->collected);
			la_needed_provide(copy->needed);
			begin_collecting(copy);
		}
		if (la_insert_table_add(&copy->into, copy->row) ||
			insert_single(copy))
			pgstat_progress_update_param(PROGRESS_COPY_TUPLES_PROCESSED,
										 ++copy->rows);
	} while (next_row(copy));
	copy->state->line_buf_valid = false;
	la_insert_table_end(&copy->into);
}

/*
 * Inserts what comes of the input, and returns the number of rows.  Where rows must not wait
 * core does it.
 */
uint64
la_copy_rows(CopyFromState state)
{
	LaCopy		copy = {.state = state};
	ErrorContextCallback callback = {
		.callback = CopyFromErrorCallback,.arg = state
	};
	LaReason	reason;

	open_table(&copy);
	reason = judge_copy(state, copy.relation, &copy.runs_user_code);
	la_stats_count(LA_FEATURE_BULK_INSERT, reason, false);
	if (reason != LA_REASON_NONE)
	{
		close_table(&copy);
		return CopyFrom(state);
	}

	prepare_rows(&copy);
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	PG_TRY();
	{
		insert_rows(&copy);
	}
	PG_FINALLY();
	{
		la_stats_add(LA_FEATURE_BULK_INSERT, &copy.counters);
	}
	PG_END_TRY();
	error_context_stack = callback.previous;
	ExecASInsertTriggers(copy.estate, copy.relation, NULL);
	AfterTriggerEndQuery(copy.estate);
	close_table(&copy);
	return copy.rows;
}
