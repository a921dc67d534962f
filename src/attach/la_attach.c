/*-------------------------------------------------------------------------
 *
 * la_attach.c
 *	  attaches to the nodes of a plan that is about to run
 *
 * After standard_ExecutorStart() has built the PlanState tree, we walk it and
 * have each node's feature, if it has one, decide and attach (la_methods.h).  The
 * plan itself is never touched, so EXPLAIN, WHERE CURRENT OF, EvalPlanQual
 * (whose trees are built inside the executor, without a hook) and parallel query
 * work as before.  That happens in parallel workers too, once they have loaded
 * the library.
 *
 * A node sleeps at first: it makes core's calls, and compares before and after
 * them how many pages this process has had to read.  Nothing is allocated
 * or remembered for it, so a statement that finds its pages in shared buffers
 * pays for that comparison and for the walk.  When a page was read, the node
 * wakes (la_attach_wake): only then are the nodes of its query registered,
 * with what their parents mean for them.  A query whose nodes will be looked
 * at from outside is registered when it starts: by EXPLAIN and the like, or by
 * a leader that collects what its workers have counted.
 *
 * A sequential scan of a table that is not small and a parallel bitmap scan are
 * registered when they begin, and an index-only scan is wrapped then.  A query with
 * a data-modifying WITH is registered when it starts, because its nodes can wake in
 * ExecutorFinish().
 *
 * A node whose function does not belong to the server's own binary has been
 * taken by another extension, which we cannot know; it is left alone.  One
 * that attaches after us keeps our function and calls it.
 *
 * Reads SubPlanState of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"

#include "attach/la_attach.h"
#include "attach/la_core_exec.h"
#include "attach/la_methods.h"
#include "attach/la_registry.h"
#include "attach/la_worker_counters.h"
#include "la_feature.h"
#include "la_reason.h"
#include "prefetch/la_wake.h"
#include "statistics/la_stats.h"

/* Rows of a node for which pages may have been read before that is worth much: arbitrary. */
#define FEW_OWN_MISSES 1

/*
 * A walk either registers the nodes of a query, or attaches to them at once.
 */
typedef struct WalkContext
{
	LaQuery    *query;			/* to register in, or NULL to attach */
	bool		fresh;			/* has nobody of us been here before? */
	bool		in_slice;		/* a worker's part of its leader's plan? */
	bool		gathers;		/* is a node below a Gather attached? */
	Bitmapset  *subplans;		/* plan_node_id of roots of plans that
								 * expressions call */
	Bitmapset  *entered;		/* those of them that the walk has come to */
	LaPlace		place;			/* of the current node */
} WalkContext;

/* The query that runs, of those that ExecutorRun() is executing. */
static LaRun *running = NULL;

/*
 * The query of which a number of rows was fetched last, and what LaRun.misses
 * was then: PL/pgSQL fetches those of a loop one by one.
 */
static EState *fetched = NULL;
static LaMisses fetched_misses = {0};

/* In a parallel worker, the query that is a slice of its leader's plan. */
static EState *slice = NULL;

static bool visit_node(PlanState *planstate, WalkContext *context);

/*
 * Will it be asked what became of the nodes of a query that starts, or can
 * they wake where no ExecutorRun() of it is to be seen: in ExecutorFinish(),
 * which completes a data-modifying WITH?
 */
static bool
is_looked_at(const QueryDesc *queryDesc)
{
	return queryDesc->instrument_options != 0 ||
		queryDesc->estate->es_auxmodifytables != NIL ||
		la_wake_forced();
}

/*
 * A registered query is over, whichever way: adds up what its nodes have
 * counted.  Must not throw.
 */
static void
end_query(LaQuery *query)
{
	slist_iter	iter;

	la_worker_counters_end(query);
	slist_foreach(iter, &query->nodes)
	{
		LaNode	   *node = slist_container(LaNode, link, iter.cur);

		if (!la_counters_are_zero(&node->counters))
			la_stats_add(node->feature, &node->counters);
		if (!la_counters_are_zero(&node->worker_counters))
			la_stats_add_workers(node->feature, &node->worker_counters);
	}
}

/*
 * When every row of a node reaches a Limit, the node knows how many rows can
 * still be wanted and need not read past them.  That holds below nodes that
 * pass rows on one for one (LockRows may drop a row, which makes the number
 * too small, never wrong: it only bounds look-ahead).  Reads SubqueryScanState
 * of execnodes.h.
 */
static void
note_limit(LimitState *limit, WalkContext *context)
{
	PlanState  *child = outerPlanState(limit);

	while (child != NULL && child->qual == NULL)
	{
		if (IsA(child, ResultState) || IsA(child, LockRowsState))
			child = outerPlanState(child);
		else if (IsA(child, SubqueryScanState))
			child = castNode(SubqueryScanState, child)->subplan;
		else
		{
			context->place.limited = child;
			context->place.limit = limit;
			return;
		}
	}
}

/*
 * Walks what is below a node that makes a difference to it.
 */
static bool
walk_below(PlanState *planstate, WalkContext *context)
{
	LaPlace		saved = context->place;
	bool		result;

	if (IsA(planstate, MergeJoinState))
	{
		/*
		 * It marks and restores the position of its inner child, which a
		 * Result passes on; other nodes do not (relies on ExecMarkPos() in
		 * execAmi.c).
		 */
		PlanState  *inner = innerPlanState(planstate);

		while (inner != NULL && IsA(inner, ResultState))
			inner = outerPlanState(inner);
		context->place.marked = inner;
	}
	else if (IsA(planstate, LimitState))
		note_limit(castNode(LimitState, planstate), context);
	else
		context->place.gather = planstate;
	result = planstate_tree_walker(planstate, visit_node, context);
	context->place = saved;
	return result;
}

/*
 * A plan that an expression calls is reached from every copy of the expression: those of the
 * partitions of a table have one plan, and so have a condition of an index and the
 * condition that is checked again (relies on ExecInitSubPlan() in nodeSubplan.c).  What has our
 * function already would be taken for another extension's.
 */
static void
note_subplans(PlanState *planstate, WalkContext *context)
{
	ListCell   *lc;

	foreach(lc, planstate->subPlan)
	{
		const SubPlanState *called = lfirst_node(SubPlanState, lc);

		context->subplans = bms_add_member(context->subplans,
										   called->planstate->plan->plan_node_id);
	}
}

/*
 * Has the walk been at this node before, as the root of such a plan?
 */
static bool
was_entered(PlanState *planstate, WalkContext *context)
{
	int			id = planstate->plan->plan_node_id;

	if (!bms_is_member(id, context->subplans))
		return false;
	if (bms_is_member(id, context->entered))
		return true;
	context->entered = bms_add_member(context->entered, id);
	return false;
}

/*
 * What becomes of a node: what its feature says, unless another extension has
 * taken it.
 */
static LaVerdict
classify(PlanState *planstate, LaFeature feature, const WalkContext *context)
{
	LaVerdict	verdict = la_methods[feature]->classify(planstate, &context->place);

	if (verdict.reason == LA_REASON_NONE && context->fresh &&
		!la_core_exec_learn(planstate, la_core_exec_of(planstate)))
		verdict.reason = LA_REASON_OTHER_EXTENSION;
	return verdict;
}

/*
 * Registers a node, and what is known of it.  It can be reached twice, through
 * es_subplanstates too; the first visit decides, which knows its parents.
 */
static void
register_node(PlanState *planstate, LaFeature feature, WalkContext *context)
{
	const LaPlace *place = &context->place;
	LaNode	   *node = la_registry_add(context->query, planstate, feature);
	LaVerdict	verdict;

	if (node == NULL)
		return;
	verdict = classify(planstate, feature, context);
	node->reason = verdict.reason;
	node->way = verdict.way;
	if (planstate == place->limited)
		node->limit = place->limit;
	if (node->reason == LA_REASON_NONE && place->gather != NULL &&
		!(place->eflags & EXEC_FLAG_EXPLAIN_ONLY))
	{
		node->below_gather = true;
		la_worker_counters_watch(context->query, place->gather);
	}
}

/*
 * Counts a node that is about to run, and gives it our function unless there
 * is a reason not to.
 */
static bool
attach_node(PlanState *planstate, LaFeature feature, LaReason reason, bool in_slice)
{
	const LaNodeKind *kind = la_methods[feature]->nodes;

	la_stats_count(feature, reason, in_slice);
	if (reason != LA_REASON_NONE)
	{
		elog(DEBUG1, "pg_lookahead leaves a node to core: %s",
			 la_reason_text(reason));
		return false;
	}
	while (kind->tag != nodeTag(planstate))
		kind++;
	la_core_exec_change(planstate, planstate->ExecProcNodeReal, kind->exec);
	return true;
}

/*
 * planstate_tree_walker callback.  Parents come before their children, so
 * what a parent means for a child is noted before the child is decided about.
 */
static bool
visit_node(PlanState *planstate, WalkContext *context)
{
	LaFeature	feature;

	if (unlikely(context->subplans != NULL) && was_entered(planstate, context))
		return false;
	if (unlikely(planstate->subPlan != NIL))
		note_subplans(planstate, context);
	if (la_methods_feature(planstate, &feature) && la_feature_enabled(feature))
	{
		if (context->query != NULL)
			register_node(planstate, feature, context);
		else if (attach_node(planstate, feature,
							 classify(planstate, feature, context).reason,
							 context->in_slice))
			context->gathers |= context->place.gather != NULL;
	}

	switch (nodeTag(planstate))
	{
		case T_MergeJoinState:
		case T_LimitState:
		case T_GatherState:
		case T_GatherMergeState:
			return walk_below(planstate, context);
		default:
			return planstate_tree_walker(planstate, visit_node, context);
	}
}

static void
walk_tree(PlanState *planstate, WalkContext *context)
{
	visit_node(planstate, context);
	bms_free(context->subplans);
	bms_free(context->entered);
	context->subplans = context->entered = NULL;
}

/*
 * Registers a query with all nodes that a feature is for.  Both the main tree and es_subplanstates
 * are walked: the plan of a data-modifying WITH that nothing refers to hangs
 * only in the latter.
 */
static LaQuery *
register_query(QueryDesc *queryDesc, int eflags, bool fresh)
{
	WalkContext context = {.fresh = fresh,.place.eflags = eflags};
	ListCell   *lc;

	context.query = la_registry_add_query(queryDesc->estate, end_query);
	context.query->top = queryDesc->planstate;
	walk_tree(queryDesc->planstate, &context);
	foreach(lc, queryDesc->estate->es_subplanstates)
	{
		if (lfirst(lc) != NULL)
			walk_tree((PlanState *) lfirst(lc), &context);
	}
	if (slice != NULL && slice == queryDesc->estate)
		la_worker_counters_begin_slice(context.query,
									   queryDesc->instrument_options != 0);
	return context.query;
}

/*
 * Attaches to the nodes of a query that was registered before it runs.
 */
static void
attach_registered(LaQuery *query, bool in_slice)
{
	slist_iter	iter;

	slist_foreach(iter, &query->nodes)
	{
		LaNode	   *node = slist_container(LaNode, link, iter.cur);

		attach_node(node->planstate, node->feature, node->reason, in_slice);
	}
}

/*
 * A query starts, and has its plan nodes.  In a parallel worker it may be the
 * slice of its leader's plan.
 */
void
la_attach_start(QueryDesc *queryDesc, int eflags, bool in_slice)
{
	WalkContext context = {
		.fresh = true,.in_slice = in_slice,.place.eflags = eflags
	};

	if (unlikely(in_slice))
		slice = queryDesc->estate;
	if (fetched == queryDesc->estate)
		fetched = NULL;
	if (queryDesc->planstate == NULL || !la_methods_any_node())
		return;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		register_query(queryDesc, eflags, true);
	else if (is_looked_at(queryDesc))
		attach_registered(register_query(queryDesc, eflags, true), in_slice);
	else
	{
		walk_tree(queryDesc->planstate, &context);
		if (context.gathers && !IsParallelWorker())
			register_query(queryDesc, eflags, false);
	}
}

/*
 * A child in a query that runs has been started now (late_start), in the query's
 * own process and not below a Gather.
 */
void
la_attach_child(PlanState *planstate)
{
	LaQuery    *query = la_registry_find_query(planstate->state);
	WalkContext context = {
		.fresh = true,.place.eflags = planstate->state->es_top_eflags
	};

	visit_node(planstate, &context);
	if (query != NULL)
	{
		context.fresh = false;
		context.query = query;
		visit_node(planstate, &context);
	}
}

/*
 * ExecutorRun() of a query begins: it is known which query runs, and whether its
 * rows are fetched a few at a time (FETCH, a PL/pgSQL loop, an Execute message
 * with a row limit).
 * Such a query may stand idle for hours between two calls, so its scans keep
 * few pages pinned (see la_bitmap_scan.c).  Parallel workers also get a count,
 * from a Limit above Gather, but they never stand idle.
 */
void
la_attach_begin_run(LaRun *run, QueryDesc *queryDesc, uint64 count)
{
	LaQuery    *query;

	run->query_desc = queryDesc;
	run->bounded = count > 0;
	if (run->bounded && fetched == queryDesc->estate)
	{
		run->misses = fetched_misses;
		la_misses_turn(&run->misses);
	}
	else
		memset(&run->misses, 0, sizeof(LaMisses));
	run->outer = running;
	if (run->bounded && (query = la_registry_find_query(queryDesc->estate)) != NULL)
		query->bounded = true;
	running = run;
}

/*
 * It ends, be it by an error.
 */
void
la_attach_end_run(LaRun *run)
{
	if (run->bounded && run->misses.rows > 0)
	{
		la_misses_turn(&run->misses);
		fetched = run->query_desc->estate;
		fetched_misses = run->misses;
	}
	running = run->outer;
}

/*
 * Is this query the one whose ExecutorRun() is innermost?
 */
static bool
is_running(const EState *estate)
{
	return running != NULL && running->query_desc->estate == estate;
}

/*
 * May who receives the rows of a query keep them behind an error?
 */
static bool
keeps_rows(const EState *estate)
{
	return !is_running(estate) ||
		running->query_desc->dest == NULL ||
		running->query_desc->dest->mydest == DestTuplestore;
}

/*
 * A node that sleeps had a page read: what is known about it, for its feature
 * to go on with.  NULL when it must stay with core: look-ahead was switched
 * off, or no ExecutorRun() of its query is to be seen.
 */
LaNode *
la_attach_wake(PlanState *planstate, LaFeature feature)
{
	LaNode	   *node;

	if (!la_feature_enabled(feature))
		return NULL;

	node = la_registry_find(planstate);
	if (node == NULL && is_running(planstate->state) &&
		la_registry_find_query(planstate->state) == NULL)
	{
		LaQuery    *query = register_query(running->query_desc,
										   planstate->state->es_top_eflags,
										   false);

		query->bounded = running->bounded;
		node = la_registry_find(planstate);
	}
	if (node == NULL || node->feature != feature ||
		node->reason != LA_REASON_NONE)
		return NULL;
	node->query->keeps_rows = keeps_rows(planstate->state);
	return node;
}

/*
 * The same for a feature that has to prepare much: not before enough pages of what
 * runs come from a device (la_misses.c), nor for the node's own first row that had
 * pages read.
 */
LaNode *
la_attach_wake_if_cold(PlanState *planstate, LaFeature feature)
{
	LaNode	   *node;

	if (!la_wake_forced() &&
		(!is_running(planstate->state) ||
		 !la_misses_are_cold(&running->misses, planstate)))
		return NULL;
	node = la_attach_wake(planstate, feature);
	if (node != NULL && node->state == NULL && !la_wake_forced() &&
		node->misses++ < FEW_OWN_MISSES)
		return NULL;
	return node;
}
