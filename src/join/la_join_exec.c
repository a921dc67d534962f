/*-------------------------------------------------------------------------
 *
 * la_join_exec.c
 *	  execution of a nested loop: what core does, with our way to the next outer
 *	  row
 *
 * The loop sleeps until its inner side had to have a few pages read.  Until
 * then it costs core's code and the look at whether that happened, at which
 * reads of the outer side do not count: loops below would wake each other.
 * Awake, it takes its outer rows from a window (la_join_window.c), whose rows
 * were drawn from the outer side ahead of their turn.  All the rest, the inner
 * side's rescans and rows, the conditions and the projection, is core's at all
 * times, and in its order.
 *
 * Loops of EvalPlanQual have no hook and are never ours.
 *
 * Reads NestLoopState of execnodes.h and NestLoop of plannodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "executor/instrument.h"
#include "miscadmin.h"

#include "attach/la_asleep.h"
#include "attach/la_attach.h"
#include "attach/la_core_exec.h"
#include "join/la_join_end.h"
#include "join/la_join_feature.h"
#include "join/la_join_window.h"

static TupleTableSlot *run_loop(NestLoopState *join, LaJoinWindow *window);

/*
 * Does the inner side get values of the outer row?  Other loops read the same
 * pages for each.
 */
static bool
has_parameters(const PlanState *planstate)
{
	return ((const NestLoop *) planstate->plan)->nestParams != NIL;
}

/*
 * ExecProcNode of an attached loop that has woken.
 */
static TupleTableSlot *
awake_exec(PlanState *planstate)
{
	LaNode	   *node = la_registry_find(planstate);

	return run_loop(castNode(NestLoopState, planstate), node != NULL ? node->state : NULL);
}

/*
 * The same of one that sleeps.  Whoever stands in front of the node goes on calling it when it
 * has woken, and there may be rows in the window.
 */
static TupleTableSlot *
asleep_exec(PlanState *planstate)
{
	if (unlikely(planstate->ExecProcNodeReal != asleep_exec))
		return awake_exec(planstate);
	return run_loop(castNode(NestLoopState, planstate), NULL);
}

/*
 * The next outer row, or an empty slot or NULL when there is none.
 */
static pg_attribute_always_inline TupleTableSlot *
next_outer(NestLoopState *join, LaJoinWindow *window)
{
	TupleTableSlot *slot;

	if (likely(window == NULL))
		return ExecProcNode(outerPlanState(join));
	if (la_join_window_next(window, &slot))
		return slot;
	if (la_join_window_sleeps(window))
		la_core_exec_change(&join->js.ps, awake_exec, asleep_exec);
	return ExecProcNode(outerPlanState(join));
}

/*
 * Gives the inner side the values of another outer row, and starts it anew.  Mirrors a part
 * of ExecNestLoop() in nodeNestloop.c.
 */
static pg_attribute_always_inline void
begin_inner(NestLoopState *join, TupleTableSlot *outer)
{
	ExprContext *econtext = join->js.ps.ps_ExprContext;
	PlanState  *inner = innerPlanState(join);
	ListCell   *lc;

	econtext->ecxt_outertuple = outer;
	join->nl_NeedNewOuter = false;
	join->nl_MatchedOuter = false;

	foreach(lc, ((NestLoop *) join->js.ps.plan)->nestParams)
	{
		NestLoopParam *parameter = (NestLoopParam *) lfirst(lc);
		ParamExecData *value;

		value = &econtext->ecxt_param_exec_vals[parameter->paramno];
		value->value = slot_getattr(outer, parameter->paramval->varattno,
									&value->isnull);
		inner->chgParam = bms_add_member(inner->chgParam, parameter->paramno);
	}
	ExecReScan(inner);
}

/*
 * A page was read for the inner side.  Returns the window that the next outer
 * rows come from, NULL when from none.  Where another extension has come behind us,
 * we must not change the node's function, and cannot wake.
 */
static LaJoinWindow *
wake(NestLoopState *join, LaJoinWindow *window)
{
	LaNode	   *node;

	if (window != NULL && !la_join_window_sleeps(window))
		return window;
	if (window == NULL && join->js.ps.ExecProcNodeReal != asleep_exec)
		return NULL;
	node = window != NULL ? la_attach_wake(&join->js.ps, LA_FEATURE_NESTED_LOOP) :
		la_attach_wake_if_cold(&join->js.ps, LA_FEATURE_NESTED_LOOP);
	if (node == NULL || la_join_end_is_awaited(node))
		return window;

	if (node->state == NULL)
		node->state = la_join_window_create(join, node);
	if (node->state == NULL || !la_join_window_wake(node->state))
	{
		if (node->reason != LA_REASON_NONE)
			la_core_exec_change(&join->js.ps, asleep_exec, *la_core_exec_of(&join->js.ps));
		return window;
	}
	la_core_exec_change(&join->js.ps, asleep_exec, awake_exec);
	return node->state;
}

/*
 * The next row of the join, or NULL.  Mirrors ExecNestLoop() in nodeNestloop.c.  The
 * window is NULL until the loop wakes.
 */
static pg_attribute_always_inline TupleTableSlot *
run_loop(NestLoopState *join, LaJoinWindow *window)
{
	ExprState  *joinqual = join->js.joinqual;
	ExprState  *otherqual = join->js.ps.qual;
	ExprContext *econtext = join->js.ps.ps_ExprContext;

	CHECK_FOR_INTERRUPTS();
	ResetExprContext(econtext);

	for (;;)
	{
		TupleTableSlot *inner;
		int64		reads;

		if (join->nl_NeedNewOuter)
		{
			TupleTableSlot *outer = next_outer(join, window);

			if (TupIsNull(outer))
				return NULL;
			begin_inner(join, outer);
		}

		reads = la_reads();
		inner = ExecProcNode(innerPlanState(join));
		econtext->ecxt_innertuple = inner;
		if (unlikely(la_asleep_missed(&join->js.ps, reads)))
			window = wake(join, window);

		if (TupIsNull(inner))
		{
			join->nl_NeedNewOuter = true;
			if (join->nl_MatchedOuter ||
				(join->js.jointype != JOIN_LEFT && join->js.jointype != JOIN_ANTI))
				continue;
			econtext->ecxt_innertuple = join->nl_NullInnerTupleSlot;
			if (otherqual == NULL || ExecQual(otherqual, econtext))
				return ExecProject(join->js.ps.ps_ProjInfo);
			InstrCountFiltered2(join, 1);
			continue;
		}

		if (ExecQual(joinqual, econtext))
		{
			join->nl_MatchedOuter = true;
			if (join->js.jointype == JOIN_ANTI)
			{
				join->nl_NeedNewOuter = true;
				continue;
			}
			if (join->js.single_match)
				join->nl_NeedNewOuter = true;
			if (otherqual == NULL || ExecQual(otherqual, econtext))
				return ExecProject(join->js.ps.ps_ProjInfo);
			InstrCountFiltered2(join, 1);
		}
		else
			InstrCountFiltered1(join, 1);
		ResetExprContext(econtext);
	}
}

const LaFeatureMethods la_nested_loop_methods = {
	.info = &la_nested_loop_feature,
	.nodes = {{T_NestLoopState, asleep_exec}},
	.classify = la_join_classify,
	.concerns = has_parameters,
};
