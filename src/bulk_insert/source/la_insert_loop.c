/*-------------------------------------------------------------------------
 *
 * la_insert_loop.c
 *	  inserts whose rows are collected
 *
 * An INSERT that returns no rows is executed in a single call of its ModifyTable
 * node.  Ours mirrors ExecModifyTable() in nodeModifyTable.c, but collects
 * rows in batches.  The first rows are inserted one by one, as core does it.  Then a batch has as many
 * rows as there were before it, up to a page (wants_flush() in la_insert_table.c): of a statement that fails
 * about as many rows are in the table, dead, as core would have put there, unless a key turns out to be
 * there already when entries are made.
 *
 * At any row the rest can be handed back to core, with that row first: its
 * node is in the state in which core's function would have left it.  Reads
 * ModifyTableState of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "executor/executor.h"
#include "miscadmin.h"

#include "attach/la_attach.h"
#include "attach/la_core_exec.h"
#include "bulk_insert/judge/la_insert_relation.h"
#include "bulk_insert/la_insert_feature.h"
#include "bulk_insert/sink/la_insert_table.h"
#include "bulk_insert/source/la_insert_reason.h"
#include "bulk_insert/source/la_insert_receiver.h"
#include "statistics/la_stats.h"

/*
 * An insert that is executed.
 */
typedef struct LaInsert
{
	ModifyTableState *node;
	PlanState  *source;
	LaInsertTable table;
} LaInsert;

/*
 * A row that is handed back to core, which asks for it at once.
 */
typedef struct HandedBack
{
	PlanState  *source;
	ExecProcNodeMtd exec;		/* the source's own function */
	TupleTableSlot *row;
} HandedBack;

static HandedBack handed_back;

/*
 * ExecProcNode of a source, for one row.
 */
static TupleTableSlot *
handed_back_exec(PlanState *source)
{
	Assert(source == handed_back.source);
	source->ExecProcNode = handed_back.exec;
	return handed_back.row;
}

/*
 * Core goes on, with this row.  The source gives it when core asks, and is not
 * executed for it again: it has been counted by the source's instrumentation.
 */
static TupleTableSlot *
hand_back(LaInsert *insert, TupleTableSlot *row)
{
	PlanState  *source = insert->source;

	handed_back = (HandedBack)
	{
		.source = source,.exec = source->ExecProcNode,.row = row
	};
	source->ExecProcNode = handed_back_exec;
	return (*la_core_exec_of(&insert->node->ps)) (&insert->node->ps);
}

/*
 * Does a test want core to go on?
 */
static bool
is_row_to_hand_back(const LaInsert *insert)
{
#ifdef LA_TEST
	return la_test_insert_hand_back > 0 &&
		insert->table.rows + 1 == la_test_insert_hand_back;
#else
	return false;
#endif
}

/*
 * The next row of the source, NULL when there is none.
 */
static TupleTableSlot *
next_row(LaInsert *insert)
{
	TupleTableSlot *row;

	CHECK_FOR_INTERRUPTS();
	ResetPerTupleExprContext(insert->node->ps.state);
	row = ExecProcNode(insert->source);
	return TupIsNull(row) ? NULL : row;
}

static void
count_row(LaInsert *insert)
{
	if (insert->node->canSetTag)
		insert->node->ps.state->es_processed++;
}

/*
 * Inserts the first rows as core does.  Returns the next one, NULL when there is none.
 */
static TupleTableSlot *
insert_single_rows(LaInsert *insert)
{
	uint64		single_rows = la_insert_single_rows();
	TupleTableSlot *row;

	while ((row = next_row(insert)) != NULL && insert->table.rows < single_rows)
	{
		if (is_row_to_hand_back(insert) ||
			!la_insert_table_insert(&insert->table, row))
			break;
		count_row(insert);
	}
	return row;
}

/*
 * Rows that come now are left to core.  In the statistics the insert counts among those
 * left to core, too.
 */
static void
leave_to_core(LaNode *node, LaReason reason)
{
	node->reason = reason;
	la_stats_count(LA_FEATURE_BULK_INSERT, reason, false);
}

/*
 * There are rows enough to collect some: inserts this row and those that follow in batches.
 * Returns the row to hand back to core, NULL when there is none.
 */
static TupleTableSlot *
insert_batches(LaInsert *insert, TupleTableSlot *row)
{
	LaInsertTable *table = &insert->table;
	const Plan *source = insert->source->plan;
	LaInsertCalls table_calls;
	LaInsertCalls query_calls;
	LaNode	   *node;

	if (is_row_to_hand_back(insert))
		return row;
	node = la_attach_wake(&insert->node->ps, LA_FEATURE_BULK_INSERT);
	if (node == NULL)
		return row;
	table_calls = la_insert_calls(table->root);
	query_calls = la_insert_marked_calls((ModifyTable *) insert->node->ps.plan);
	if (Max(table_calls, query_calls) == LA_CALLS_SEEING)
	{
		leave_to_core(node, LA_REASON_VOLATILE);
		return row;
	}
	node->counters.scans++;
	la_insert_table_collect(table, &node->counters,
							Max(table_calls, query_calls) == LA_CALLS_USERS,
							source->plan_rows * source->plan_width);
	for (; row != NULL && !is_row_to_hand_back(insert); row = next_row(insert))
	{
		if (!la_insert_table_add(table, row))
		{
			leave_to_core(node, table->route->reason);
			break;
		}
		count_row(insert);
	}
	la_insert_table_end(table);
	return row;
}

/*
 * ExecProcNode of an insert.
 */
static TupleTableSlot *
insert_exec(PlanState *planstate)
{
	ModifyTableState *node = castNode(ModifyTableState, planstate);
	EState	   *estate = planstate->state;
	LaInsert	insert = {.node = node,.source = outerPlanState(node)};
	TupleTableSlot *row;

	if (node->mt_done || estate->es_epq_active != NULL)
		return (*la_core_exec_of(planstate)) (planstate);
	if (node->fireBSTriggers)
	{
		ExecBSInsertTriggers(estate, node->rootResultRelInfo);
		node->fireBSTriggers = false;
	}

	la_insert_table_begin(&insert.table, node);
	row = insert_single_rows(&insert);
	if (row != NULL)
		row = insert_batches(&insert, row);
	if (row != NULL)
		return hand_back(&insert, row);

	ExecASInsertTriggers(estate, node->rootResultRelInfo, NULL);
	node->mt_done = true;
	return NULL;
}

const LaFeatureMethods la_bulk_insert_methods = {
	.info = &la_bulk_insert_feature,
	.nodes = {{T_ModifyTableState, insert_exec}},
	.concerns = la_insert_concerns,
	.classify = la_insert_classify,
};
