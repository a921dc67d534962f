/*-------------------------------------------------------------------------
 *
 * la_worker_counters.c
 *	  counters of parallel workers: handed on by the worker, added to the
 *	  leader's plan nodes
 *
 * A worker executes a slice of its leader's plan: the part below a Gather.
 * Its plan nodes have the leader's plan_node_ids, and what it counted for
 * them goes to the leader through la_worker_table.c when the slice ends,
 * whether it ends well or not: the leader waits for its workers in either
 * case before it looks (relies on ExecParallelFinish() in execParallel.c and
 * AtEOXact_Parallel() in parallel.c).
 *
 * A leader can have several parallel queries under way, as functions above a
 * Gather may run queries.  Their workers are told apart by the DSM segment
 * of their parallel context, which a worker knows from the beginning (relies on
 * LaunchParallelWorkers() and ParallelWorkerMain() in parallel.c) and the leader
 * once its Gather has launched it (relies on ExecGather() in nodeGather.c and
 * ExecGatherMerge() in nodeGatherMerge.c).  To see it there, a Gather above
 * nodes of ours gets our function for its first row, and no longer.
 *
 * Reads GatherState and GatherMergeState of execnodes.h, ParallelExecutorInfo of
 * execParallel.h, ParallelContext of parallel.h and BackgroundWorker of
 * bgworker.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "executor/execParallel.h"
#include "executor/executor.h"
#include "postmaster/bgworker.h"
#include "storage/dsm.h"

#include "attach/la_core_exec.h"
#include "attach/la_worker_counters.h"
#include "statistics/la_worker_table.h"

/* A Gather or Gather Merge with nodes of ours below it. */
typedef struct LaGather
{
	slist_node	link;			/* in LaQuery.gathers */
	PlanState  *planstate;
	ExecProcNodeMtd exec;		/* the function that was there before */
	bool		started;
	bool		launched;		/* has it got workers at first? */
	bool		reported;		/* has one of them handed on anything? */
	dsm_handle	context;		/* of its workers, once launched */
} LaGather;

/*
 * In place of a plan_node_id: a slice has ended.  Without it, the leader
 * would take workers of another build for workers that had nothing to do.
 */
#define END_OF_SLICE (-1)

/*
 * Is the query that starts in this process the slice of a leader's plan?  It
 * is the first one of a parallel worker; later ones are those of functions.
 * To be called once for each query that starts.
 */
bool
la_worker_counters_in_slice(void)
{
	static bool had_query = false;

	if (!IsParallelWorker() || had_query)
		return false;
	had_query = true;
	return true;
}

static LaGather *
find_gather(LaQuery *query, PlanState *planstate)
{
	slist_iter	iter;

	slist_foreach(iter, &query->gathers)
	{
		LaGather   *gather = slist_container(LaGather, link, iter.cur);

		if (gather->planstate == planstate)
			return gather;
	}
	return NULL;
}

/*
 * After a Gather has launched workers, or failed.
 */
static void
note_launch(LaQuery *query, LaGather *gather)
{
	ParallelExecutorInfo *pei;

	if (IsA(gather->planstate, GatherState))
	{
		pei = castNode(GatherState, gather->planstate)->pei;
		gather->launched = castNode(GatherState, gather->planstate)->nworkers_launched > 0;
	}
	else
	{
		pei = castNode(GatherMergeState, gather->planstate)->pei;
		gather->launched = castNode(GatherMergeState, gather->planstate)->nworkers_launched > 0;
	}

	if (pei != NULL && pei->pcxt->seg != NULL)
		gather->context = dsm_segment_handle(pei->pcxt->seg);
	if (gather->launched && !query->listening)
		query->workers_uncounted = true;
}

/*
 * ExecProcNode of a Gather until its first row.  Whoever attached to it after
 * us calls our function for every row.
 */
static TupleTableSlot *
gather_exec(PlanState *planstate)
{
	LaQuery    *query = la_registry_find_query(planstate->state);
	LaGather   *gather = find_gather(query, planstate);
	TupleTableSlot *volatile slot;

	if (gather->started)
		return gather->exec(planstate);

	gather->started = true;
	la_core_exec_change(planstate, gather_exec, gather->exec);

	/* ExecGather() launches none without parallel mode. */
	if (planstate->state->es_use_parallel_mode && !query->listening)
		query->listening = la_worker_table_next_number(&query->next_report);

	/* The first row can be the last thing that happens: an aggregate's. */
	PG_TRY();
	{
		slot = gather->exec(planstate);
	}
	PG_FINALLY();
	{
		note_launch(query, gather);
	}
	PG_END_TRY();
	return slot;
}

/*
 * In a leader: attaches to a Gather above an eligible node, if that is not
 * done yet.  The query is being started, so as a rule we are not in parallel
 * mode; a query inside a parallel one does without a table if this process
 * has not mapped it before.
 */
void
la_worker_counters_watch(LaQuery *query, PlanState *planstate)
{
	LaGather   *gather;

	if (IsParallelWorker() || find_gather(query, planstate) != NULL)
		return;

	gather = MemoryContextAllocZero(query->estate->es_query_cxt,
									sizeof(LaGather));
	gather->planstate = planstate;
	gather->exec = planstate->ExecProcNodeReal;
	gather->context = DSM_HANDLE_INVALID;
	slist_push_head(&query->gathers, &gather->link);
	la_core_exec_change(planstate, gather->exec, gather_exec);
	if (!IsInParallelMode())
		la_worker_table_attach();
}

/*
 * In a worker: makes ready to hand on the counters of this slice.  Where they
 * are looked at, as by EXPLAIN, it will also be told that there were none.
 */
void
la_worker_counters_begin_slice(LaQuery *query, bool looked_at)
{
	query->is_slice = la_worker_table_attach();
	query->looked_at = looked_at;
}

static LaGather *
gather_of(LaQuery *query, dsm_handle context)
{
	slist_iter	iter;

	slist_foreach(iter, &query->gathers)
	{
		LaGather   *gather = slist_container(LaGather, link, iter.cur);

		if (gather->context == context)
			return gather;
	}
	return NULL;
}

/*
 * The node of a query with this number, or the one that was found before.  Workers report
 * their nodes in the order in which the leader has them, so it is one of the next: a query over
 * many partitions has many.
 */
static LaNode *
find_node(LaQuery *query, LaNode *before, int plan_node_id)
{
	LaNode	   *node = before;

	do
	{
		node = slist_has_next(&query->nodes, &node->link) ?
			slist_container(LaNode, link, node->link.next) :
			slist_head_element(LaNode, link, &query->nodes);
	} while (node->plan_node_id != plan_node_id && node != before);
	return node;
}

/*
 * In a leader whose workers have ended: adds what they left to the plan
 * nodes.  Must not throw.
 */
void
la_worker_counters_collect(LaQuery *query)
{
	LaNode	   *node;
	LaWorkerReport report;
	uint64		end;
	slist_iter	iter;

	if (!query->listening || !la_worker_table_next_number(&end))
		return;
	node = slist_head_element(LaNode, link, &query->nodes);
	while (query->next_report < end &&
		   la_worker_table_read(&query->next_report, &report,
								&query->workers_uncounted))
	{
		LaGather   *gather = gather_of(query, report.context);

		if (gather == NULL)
			continue;
		if (report.plan_node_id == END_OF_SLICE)
			gather->reported = true;
		else
		{
			node = find_node(query, node, report.plan_node_id);
			if (node->plan_node_id == report.plan_node_id)
				la_counters_add(&node->worker_counters, &report.counters);
		}
	}
	slist_foreach(iter, &query->gathers)
	{
		LaGather   *gather = slist_container(LaGather, link, iter.cur);

		if (gather->launched && !gather->reported)
			query->workers_uncounted = true;
	}
}

static void
give_counters(LaQuery *query)
{
	LaWorkerReport report = {
		.context = DatumGetUInt32(MyBgworkerEntry->bgw_main_arg)
	};
	slist_iter	iter;

	la_worker_table_begin();
	slist_foreach(iter, &query->nodes)
	{
		LaNode	   *node = slist_container(LaNode, link, iter.cur);

		if (la_counters_are_zero(&node->counters))
			continue;
		report.plan_node_id = node->plan_node_id;
		report.counters = node->counters;
		la_worker_table_append(&report);
	}
	report.plan_node_id = END_OF_SLICE;
	if (query->looked_at)
		la_worker_table_append(&report);
	la_worker_table_end();
}

/*
 * At the end of any query, whichever way it ends.  Must not throw.
 */
void
la_worker_counters_end(LaQuery *query)
{
	if (query->is_slice)
		give_counters(query);
	la_worker_counters_collect(query);
}
