/*-------------------------------------------------------------------------
 *
 * la_join_scan.c
 *	  execution of a scan whose expressions call plans for each row
 *
 * A sequential scan with correlated subqueries in its filter or its target
 * list, which are executed for one row after another.  It does what core does,
 * and sleeps until such plans had to have a few pages read.  Awake, it asks
 * for what the rows behind each want (la_join_scan_rows.c).
 *
 * Scans of EvalPlanQual have no hook and are never ours.
 *
 * Reads ProjectionInfo and ExprState of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "miscadmin.h"

#include "attach/la_asleep.h"
#include "attach/la_attach.h"
#include "attach/la_core_exec.h"
#include "join/la_join_feature.h"
#include "join/la_join_outer.h"
#include "join/la_join_scan_rows.h"
#include "la_compat.h"

static TupleTableSlot *run_scan(ScanState *scan, LaJoinScanRows *rows);

/*
 * If not, or while the setting is off, the scan is one as any.
 */
static bool
calls_per_row(const PlanState *planstate)
{
	ListCell   *lc;

	if (!la_feature_enabled(LA_FEATURE_SUBPLAN))
		return false;
	foreach(lc, planstate->subPlan)
	{
		if (la_join_calls_per_row(lfirst_node(SubPlanState, lc)))
			return true;
	}
	return false;
}

/*
 * ExecProcNode of an attached scan that has woken.  An extension that has come behind us goes on
 * calling it when the scan sleeps again.
 */
static TupleTableSlot *
awake_exec(PlanState *planstate)
{
	LaNode	   *node = la_registry_find(planstate);
	LaJoinScanRows *rows = node != NULL ? node->state : NULL;

	return run_scan((ScanState *) planstate,
					rows != NULL && la_join_scan_rows_is_awake(rows) ? rows : NULL);
}

/*
 * The same of one that sleeps.  Whoever stands in front of the node goes on calling it when it
 * has woken.
 */
static TupleTableSlot *
asleep_exec(PlanState *planstate)
{
	if (unlikely(planstate->ExecProcNodeReal != asleep_exec))
		return awake_exec(planstate);
	return run_scan((ScanState *) planstate, NULL);
}

/*
 * The next row of the table, or NULL.  Mirrors SeqNext() in nodeSeqscan.c.
 * The rows ahead become NULL when the scan goes to sleep.
 */
static TupleTableSlot *
next_row(ScanState *scan, LaJoinScanRows **rows)
{
	EState	   *estate = scan->ps.state;
	TupleTableSlot *slot = scan->ss_ScanTupleSlot;

	if (unlikely(scan->ss_currentScanDesc == NULL))
		scan->ss_currentScanDesc = la_compat_beginscan(scan->ss_currentRelation,
													   estate->es_snapshot);
	if (!table_scan_getnextslot(scan->ss_currentScanDesc, estate->es_direction, slot))
		slot = NULL;
	if (*rows != NULL && (slot == NULL || !la_join_scan_rows_advance(*rows)))
	{
		la_join_scan_rows_end(*rows);
		la_core_exec_change(&scan->ps, awake_exec, asleep_exec);
		*rows = NULL;
	}
	return slot;
}

/*
 * A page was read for a row.  Returns what asks for those of the next rows, NULL when nothing
 * does.  Where another extension has come behind us, we must not change the node's function, and
 * cannot wake.
 */
static LaJoinScanRows *
wake(ScanState *scan, LaJoinScanRows *rows)
{
	LaNode	   *node;

	if (rows != NULL || scan->ps.ExecProcNodeReal != asleep_exec)
		return rows;
	node = la_attach_wake_if_cold(&scan->ps, LA_FEATURE_SUBPLAN);
	if (node == NULL)
		return NULL;
	if (node->state == NULL)
		node->state = la_join_scan_rows_create(scan, node);
	if (node->state == NULL)
		la_core_exec_change(&scan->ps, asleep_exec, *la_core_exec_of(&scan->ps));
	else if (la_join_scan_rows_wake(node->state))
	{
		la_core_exec_change(&scan->ps, asleep_exec, awake_exec);
		return node->state;
	}
	return NULL;
}

/*
 * The next row, or an empty slot or NULL.  Mirrors ExecScanExtended() in execScan.h, for a scan
 * without EvalPlanQual.  The rows ahead are NULL while the scan sleeps.
 */
static TupleTableSlot *
run_scan(ScanState *scan, LaJoinScanRows *rows)
{
	ExprState  *qual = scan->ps.qual;
	ProjectionInfo *projection = scan->ps.ps_ProjInfo;
	ExprContext *econtext = scan->ps.ps_ExprContext;

	for (;;)
	{
		TupleTableSlot *slot;
		int64		reads;
		bool		passes;

		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		slot = next_row(scan, &rows);
		if (TupIsNull(slot))
			return projection != NULL ?
				ExecClearTuple(projection->pi_state.resultslot) : slot;

		econtext->ecxt_scantuple = slot;
		reads = la_reads();
		passes = qual == NULL || ExecQual(qual, econtext);
		if (passes && projection != NULL)
			slot = ExecProject(projection);
		if (unlikely(la_asleep_missed(&scan->ps, reads)))
			rows = wake(scan, rows);
		if (passes)
			return slot;
		InstrCountFiltered1(scan, 1);
	}
}

const LaFeatureMethods la_subplan_methods = {
	.info = &la_subplan_feature,
	.nodes = {{T_SeqScanState, asleep_exec}},
	.calling = true,
	.classify = la_join_classify,
	.concerns = calls_per_row,
};
