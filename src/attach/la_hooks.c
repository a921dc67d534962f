/*-------------------------------------------------------------------------
 *
 * la_hooks.c
 *	  all hooks of core that we use
 *
 * Nobody else installs one.  Each calls the hook that was there before, or the
 * function of core that it stands for, exactly once (but for a COPY that a feature
 * executes in core's place); none changes a plan but by a
 * mark that core does not look at (la_insert_reason.c), or while a query starts
 * (la_late_start.c).  What
 * happens there is said by LaHooks, in la_module.c, and for plan nodes by la_attach.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/explain.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "optimizer/planner.h"
#include "tcop/dest.h"
#include "tcop/utility.h"

#include "attach/la_attach.h"
#include "attach/la_hooks.h"
#include "attach/la_worker_counters.h"
#include "la_compat.h"
#include "statistics/la_cluster_stats.h"
#include "statistics/la_stats.h"

static ExecutorStart_hook_type next_ExecutorStart = NULL;
static ExecutorRun_hook_type next_ExecutorRun = NULL;
static ProcessUtility_hook_type next_ProcessUtility = NULL;
static shmem_request_hook_type next_shmem_request = NULL;
static planner_hook_type next_planner = NULL;
static LaRelationHook next_relation = NULL;
static explain_per_node_hook_type next_explain_per_node = NULL;
static explain_per_plan_hook_type next_explain_per_plan = NULL;
static const LaHooks *ours;

/*
 * shmem_request_hook: the server starts, and has loaded all libraries.
 */
static void
hook_shmem_request(void)
{
	if (next_shmem_request)
		next_shmem_request();
	la_cluster_stats_register();
}

static void
start_query(QueryDesc *queryDesc, int eflags)
{
	if (next_ExecutorStart)
		next_ExecutorStart(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);
}

/*
 * Starts a query whose plan is pruned while it starts or runs.
 */
static void
start_pruned_query(QueryDesc *queryDesc, int eflags)
{
	void	   *begun = ours->begin_start(queryDesc, eflags);

	if (begun == NULL)
	{
		start_query(queryDesc, eflags);
		return;
	}
	PG_TRY();
	{
		start_query(queryDesc, eflags);
	}
	PG_FINALLY();
	{
		ours->end_start(begun);
	}
	PG_END_TRY();
	ours->started(queryDesc, eflags);
}

/*
 * ExecutorStart_hook: the nodes of the plan are there.
 */
static void
hook_executor_start(QueryDesc *queryDesc, int eflags)
{
	/*
	 * Pruning of partitions, a part of the start, may run queries of
	 * functions.
	 */
	bool		in_slice = la_worker_counters_in_slice();

	if (likely(queryDesc->plannedstmt->partPruneInfos == NIL))
		start_query(queryDesc, eflags);
	else
		start_pruned_query(queryDesc, eflags);
	la_attach_start(queryDesc, eflags, in_slice);
	if (queryDesc->plannedstmt->resultRelations != NIL)
		ours->modify_start(queryDesc, eflags);
}

/*
 * Do the rows of a query become a new table: by CREATE TABLE AS, SELECT INTO, or of a
 * materialized view?
 */
static bool
fills_table(const QueryDesc *queryDesc)
{
	return queryDesc->dest != NULL &&
		(queryDesc->dest->mydest == DestIntoRel ||
		 queryDesc->dest->mydest == DestTransientRel);
}

/*
 * ExecutorRun_hook: nodes may wake.
 */
static void
hook_executor_run(QueryDesc *queryDesc, ScanDirection direction, uint64 count)
{
	const bool	fills = fills_table(queryDesc);
	LaRun		run;

	la_attach_begin_run(&run, queryDesc, count);
	PG_TRY();
	{
		if (unlikely(fills))
			ours->begin_filling(queryDesc);
		if (next_ExecutorRun)
			next_ExecutorRun(queryDesc, direction, count);
		else
			standard_ExecutorRun(queryDesc, direction, count);
	}
	PG_FINALLY();
	{
		if (unlikely(fills))
			ours->end_filling(queryDesc);
		la_attach_end_run(&run);
	}
	PG_END_TRY();
}

/*
 * Executes a utility command: core does, but for a COPY that a feature wants, unless a library
 * that was loaded before us has a hook: it would not see the command.
 */
static void
execute_utility(const LaUtility *utility, QueryCompletion *qc)
{
	if (IsA(utility->statement->utilityStmt, CopyStmt) &&
		ours->concerns_copy(utility))
	{
		if (next_ProcessUtility != NULL)
			la_stats_count(ours->copy_feature, LA_REASON_OTHER_EXTENSION, false);
		else if (ours->run_copy(utility, qc))
			return;
	}
	if (next_ProcessUtility)
		next_ProcessUtility(utility->statement, utility->query_string,
							utility->read_only, utility->context,
							utility->params, utility->environment,
							utility->dest, qc);
	else
		standard_ProcessUtility(utility->statement, utility->query_string,
								utility->read_only, utility->context,
								utility->params, utility->environment,
								utility->dest, qc);
}

/*
 * ProcessUtility_hook: the only one that sees a utility command's beginning and
 * its end.
 */
static void
hook_process_utility(PlannedStmt *pstmt, const char *queryString,
					 bool readOnlyTree, ProcessUtilityContext context,
					 ParamListInfo params, QueryEnvironment *queryEnv,
					 DestReceiver *dest, QueryCompletion *qc)
{
	LaUtility	utility = {
		.statement = pstmt,.query_string = queryString,
		.read_only = readOnlyTree,.context = context,.params = params,
		.environment = queryEnv,.dest = dest
	};
	bool		begun;

	ours->before_utility();
	begun = ours->begin_utility(pstmt->utilityStmt);
	PG_TRY();
	{
		execute_utility(&utility, qc);
	}
	PG_FINALLY();
	{
		ours->end_utility(begun);
	}
	PG_END_TRY();
}

/*
 * planner_hook: the only place that has the query whole, before it becomes a plan.
 */
static PlannedStmt *
hook_planner(LA_PLANNER_HOOK_PARAMETERS)
{
	LaJudgement judgement = ours->judge_query(parse);
	PlannedStmt *plan;

	if (next_planner)
		plan = next_planner(LA_PLANNER_HOOK_ARGUMENTS);
	else
		plan = standard_planner(LA_PLANNER_HOOK_ARGUMENTS);
	ours->mark_plan(plan, &judgement);
	return plan;
}

/*
 * get_relation_info_hook or its successor: the planner has looked at a table.
 */
static void
hook_relation(LA_RELATION_HOOK_PARAMETERS)
{
	if (next_relation)
		next_relation(LA_RELATION_HOOK_ARGUMENTS);
	ours->plan_relation(root, rel);
}

/*
 * explain_per_node_hook: core has printed a plan node.
 */
static void
hook_explain_per_node(PlanState *planstate, List *ancestors,
					  const char *relationship, const char *plan_name,
					  ExplainState *es)
{
	if (next_explain_per_node)
		next_explain_per_node(planstate, ancestors, relationship, plan_name,
							  es);
	ours->explain_node(planstate, es);
}

/*
 * explain_per_plan_hook: it has printed all of them.
 */
static void
hook_explain_per_plan(PlannedStmt *plan, IntoClause *into, ExplainState *es,
					  const char *queryString, ParamListInfo params,
					  QueryEnvironment *queryEnv)
{
	if (next_explain_per_plan)
		next_explain_per_plan(plan, into, es, queryString, params, queryEnv);
	ours->explain_plan(plan, into, es);
}

/*
 * Installs the hooks: last of all at load, because they may run at once.
 */
void
la_hooks_install(const LaHooks *hooks)
{
	ours = hooks;
	next_explain_per_node = explain_per_node_hook;
	explain_per_node_hook = hook_explain_per_node;
	next_explain_per_plan = explain_per_plan_hook;
	explain_per_plan_hook = hook_explain_per_plan;
	next_ExecutorStart = ExecutorStart_hook;
	ExecutorStart_hook = hook_executor_start;
	next_ExecutorRun = ExecutorRun_hook;
	ExecutorRun_hook = hook_executor_run;
	next_planner = planner_hook;
	planner_hook = hook_planner;
	next_relation = la_relation_hook;
	la_relation_hook = hook_relation;
	next_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = hook_process_utility;
	if (process_shared_preload_libraries_in_progress)
	{
		next_shmem_request = shmem_request_hook;
		shmem_request_hook = hook_shmem_request;
	}
}
