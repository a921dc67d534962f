/*-------------------------------------------------------------------------
 *
 * la_attach.c
 *	  attaches to the nodes of a plan that is about to run
 *
 * This is the only file that installs executor hooks.  After
 * standard_ExecutorStart() has built the PlanState tree, we walk it and give
 * each eligible node our ExecProcNode.  The plan itself is never touched, so
 * EXPLAIN, WHERE CURRENT OF, EvalPlanQual (whose trees are built inside the
 * executor, without a hook) and parallel query work as before.  The hook runs
 * in parallel workers too, once they have loaded the library.
 *
 * Both the main tree and es_subplanstates are walked: the plan of a
 * data-modifying WITH that nothing refers to hangs only in the latter.
 *
 * A node whose function does not belong to the server's own binary has been
 * taken by another extension, which we cannot know; it is left alone.  One
 * that attaches after us keeps our function and calls it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>

#include "access/parallel.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"

#include "attach/la_attach.h"
#include "attach/la_registry.h"
#include "heap_scan/la_bitmap_scan.h"
#include "heap_scan/la_heap_scan.h"
#include "heap_scan/la_seq_scan.h"
#include "index_scan/la_index_next.h"
#include "index_scan/la_index_peek.h"
#include "la_guc.h"
#include "la_stats.h"
#include "statistics/la_worker_counters.h"

typedef struct WalkContext
{
	EState	   *estate;
	int			eflags;
	LaQuery    *query;			/* NULL until a node is worth registering */
	PlanState  *gather;			/* Gather [Merge] above the current node */
	bool		in_slice;		/* a worker's part of its leader's plan? */
	bool		attached;		/* to any node? */
} WalkContext;

static ExecutorStart_hook_type next_ExecutorStart = NULL;
static ExecutorRun_hook_type next_ExecutorRun = NULL;

static void attach_executor_start(QueryDesc *queryDesc, int eflags);
static void attach_executor_run(QueryDesc *queryDesc, ScanDirection direction,
								uint64 count);
static bool attach_walker(PlanState *planstate, WalkContext *context);
static LaNode *context_node(WalkContext *context, PlanState *planstate,
							LaFeature feature);
static void note_merge_join(MergeJoinState *join, WalkContext *context);
static void note_limit(LimitState *limit, WalkContext *context);
static void classify(PlanState *planstate, LaFeature feature,
					 WalkContext *context);
static LaReason reason_of(LaNode *node, int eflags, bool *peeks);
static void attach(LaNode *node, bool peeks, WalkContext *context);
static bool any_scan_enabled(void);
static bool owned_by_server(ExecProcNodeMtd function);

/*
 * Installs the hooks.
 */
void
la_attach_init(void)
{
	next_ExecutorStart = ExecutorStart_hook;
	ExecutorStart_hook = attach_executor_start;
	next_ExecutorRun = ExecutorRun_hook;
	ExecutorRun_hook = attach_executor_run;
}

static void
attach_executor_start(QueryDesc *queryDesc, int eflags)
{
	WalkContext context = {0};
	ListCell   *lc;

	if (next_ExecutorStart)
		next_ExecutorStart(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);

	context.in_slice = la_worker_counters_in_slice();
	if (queryDesc->planstate == NULL || !any_scan_enabled())
		return;

	context.estate = queryDesc->estate;
	context.eflags = eflags;
	attach_walker(queryDesc->planstate, &context);
	foreach(lc, queryDesc->estate->es_subplanstates)
	{
		if (lfirst(lc) != NULL)
			attach_walker((PlanState *) lfirst(lc), &context);
	}
	if (context.in_slice && context.attached)
		la_worker_counters_begin_slice(context.query);
}

/*
 * ExecutorRun_hook: learns that the rows are fetched a few at a time (FETCH,
 * a PL/pgSQL loop, an Execute message with a row limit), before the first of
 * them is produced.  Such a query may stand idle for hours between two calls,
 * so its scans keep few pages pinned (see la_transport.c).  Parallel workers
 * also get a count, from a Limit above Gather, but they never stand idle.
 */
static void
attach_executor_run(QueryDesc *queryDesc, ScanDirection direction,
					uint64 count)
{
	if (count > 0 && !IsParallelWorker())
	{
		LaQuery    *query = la_registry_find_query(queryDesc->estate);

		if (query != NULL)
			query->partial_fetch = true;
	}

	if (next_ExecutorRun)
		next_ExecutorRun(queryDesc, direction, count);
	else
		standard_ExecutorRun(queryDesc, direction, count);
}

/*
 * planstate_tree_walker callback.  Parents come before their children, so
 * what a parent means for a child is noted before the child is classified.
 */
static bool
attach_walker(PlanState *planstate, WalkContext *context)
{
	PlanState  *gather = context->gather;
	LaFeature	feature;
	bool		result;

	check_stack_depth();
	if (la_attach_feature(planstate, &feature))
		classify(planstate, feature, context);

	switch (nodeTag(planstate))
	{
		case T_MergeJoinState:
			note_merge_join(castNode(MergeJoinState, planstate), context);
			break;
		case T_LimitState:
			note_limit(castNode(LimitState, planstate), context);
			break;
		case T_GatherState:
		case T_GatherMergeState:
			context->gather = planstate;
			break;
		default:
			break;
	}

	result = planstate_tree_walker(planstate, attach_walker, context);
	context->gather = gather;
	return result;
}

/*
 * The registered node of a PlanState; registers it and its query first if
 * need be.
 */
static LaNode *
context_node(WalkContext *context, PlanState *planstate, LaFeature feature)
{
	if (context->query == NULL)
		context->query = la_registry_add_query(context->estate);
	return la_registry_add(context->query, planstate, feature);
}

/*
 * A merge join marks and restores the position of its inner child, which a
 * Result passes on (ExecMarkPos in execAmi.c); other nodes below it do not.
 * The index AM's position runs ahead of the row we return, so such a scan is
 * left to core.
 */
static void
note_merge_join(MergeJoinState *join, WalkContext *context)
{
	PlanState  *inner = innerPlanState(join);

	while (inner != NULL && IsA(inner, ResultState))
		inner = outerPlanState(inner);

	if (inner != NULL && IsA(inner, IndexScanState))
		context_node(context, inner, LA_FEATURE_INDEX_SCAN)->reason = LA_REASON_MARK_RESTORE;
}

/*
 * When every row of an index scan reaches a Limit, the scan knows how many
 * rows can still be wanted and need not read past them.  That holds below
 * nodes that pass rows on one for one (LockRows may drop a row, which makes
 * the number too small, never wrong: it only bounds look-ahead).
 */
static void
note_limit(LimitState *limit, WalkContext *context)
{
	PlanState  *child = outerPlanState(limit);

	while (child != NULL && child->qual == NULL)
	{
		if (IsA(child, IndexScanState) || IsA(child, IndexOnlyScanState))
		{
			context_node(context, child, LA_FEATURE_INDEX_SCAN)->limit = limit;
			return;
		}
		if (IsA(child, ResultState) || IsA(child, LockRowsState))
			child = outerPlanState(child);
		else if (IsA(child, SubqueryScanState))
			child = castNode(SubqueryScanState, child)->subplan;
		else
			return;
	}
}

/*
 * Which feature is a plan node for?  False when for none.
 */
bool
la_attach_feature(PlanState *planstate, LaFeature *feature)
{
	switch (nodeTag(planstate))
	{
		case T_IndexScanState:
		case T_IndexOnlyScanState:
			*feature = LA_FEATURE_INDEX_SCAN;
			return true;
		case T_BitmapHeapScanState:
			*feature = LA_FEATURE_BITMAP_SCAN;
			return true;
		case T_SeqScanState:
			*feature = LA_FEATURE_SEQ_SCAN;
			return true;
		case T_TidRangeScanState:
			*feature = LA_FEATURE_TID_RANGE_SCAN;
			return true;
		default:
			return false;
	}
}

/*
 * Decides about a scan, and attaches to it if it is eligible.  A node can be
 * reached twice; the first visit decides.  With EXPLAIN alone, nothing will
 * run: the decision is only kept for EXPLAIN (LOOKAHEAD).
 */
static void
classify(PlanState *planstate, LaFeature feature, WalkContext *context)
{
	LaNode	   *node;
	bool		peeks = false;

	if (!la_feature_enabled(feature))
		return;
	node = context_node(context, planstate, feature);
	if (node->classified)
		return;
	node->classified = true;
	node->reason = reason_of(node, context->eflags, &peeks);

	if (context->eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	la_stats_count(feature, node->reason, context->in_slice);
	if (node->reason == LA_REASON_NONE)
		attach(node, peeks, context);
	else
		elog(DEBUG1, "pg_lookahead leaves a scan to core: %s",
			 la_reason_text(node->reason));
}

/*
 * Why a scan is left to core, if it is.  In *peeks, whether core shall execute
 * an index scan to which we give advice.
 */
static LaReason
reason_of(LaNode *node, int eflags, bool *peeks)
{
	PlanState  *planstate = node->planstate;
	LaReason	reason = node->reason;

	if (node->feature != LA_FEATURE_INDEX_SCAN)
		reason = la_heap_scan_reason(node, eflags);
	else
	{
		if (reason == LA_REASON_NONE)
			reason = la_index_scan_reason(planstate, eflags);
		*peeks = la_index_peek_possible(planstate, reason);
		if (*peeks)
			reason = LA_REASON_NONE;
	}
	if (reason == LA_REASON_NONE &&
		!owned_by_server(planstate->ExecProcNodeReal))
		reason = LA_REASON_OTHER_EXTENSION;
	return reason;
}

/*
 * Gives a node our function.
 */
static void
attach(LaNode *node, bool peeks, WalkContext *context)
{
	switch (node->feature)
	{
		case LA_FEATURE_BITMAP_SCAN:
			la_bitmap_scan_attach(node);
			break;
		case LA_FEATURE_SEQ_SCAN:
		case LA_FEATURE_TID_RANGE_SCAN:
			la_seq_scan_attach(node);
			break;
		default:
			if (peeks)
				la_index_peek_attach(node);
			else
				ExecSetExecProcNode(node->planstate, la_index_scan_exec);
			break;
	}
	context->attached = true;
	if (context->gather != NULL)
	{
		node->below_gather = true;
		la_worker_counters_watch(context->query, context->gather);
	}
}

/*
 * Is there any kind of scan that is not switched off?
 */
static bool
any_scan_enabled(void)
{
	for (LaFeature feature = 0; feature < LA_FEATURE_COUNT; feature++)
	{
		if (feature != LA_FEATURE_INDEX_BUILD && la_feature_enabled(feature))
			return true;
	}
	return false;
}

/*
 * Is this function part of the server's binary?  Its base address is that of
 * any function which is known to be.
 */
static bool
owned_by_server(ExecProcNodeMtd function)
{
	static ExecProcNodeMtd known = NULL;
	Dl_info		function_info;
	Dl_info		server_info;

	if (known != NULL && function == known)
		return true;
	if (dladdr((void *) function, &function_info) == 0 ||
		dladdr((void *) standard_ExecutorStart, &server_info) == 0 ||
		function_info.dli_fbase != server_info.dli_fbase)
		return false;
	known = function;
	return true;
}
