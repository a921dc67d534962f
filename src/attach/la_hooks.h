/*-------------------------------------------------------------------------
 *
 * la_hooks.h
 *	  all hooks of core that we use
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_HOOKS_H
#define LA_HOOKS_H

#include "commands/explain_state.h"
#include "executor/execdesc.h"
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"
#include "tcop/utility.h"

#include "la_feature.h"
#include "la_reason.h"

/*
 * What is found out about a query before it is planned: why it is left to core, if it
 * is; and the functions and types of users, by OID, that came up.
 */
typedef struct LaJudgement
{
	LaReason	reason;
	List	   *functions;
	List	   *types;
} LaJudgement;

/*
 * A utility command, as ProcessUtility_hook gets it.
 */
typedef struct LaUtility
{
	PlannedStmt *statement;
	const char *query_string;
	bool		read_only;		/* must the statement not be changed? */
	ProcessUtilityContext context;
	ParamListInfo params;
	QueryEnvironment *environment;
	DestReceiver *dest;
} LaUtility;

/*
 * What rooms do in hooks.  la_module.c says which room it is for each.
 */
typedef struct LaHooks
{
	/* Print what EXPLAIN shows under a plan node, and after all of them. */
	void		(*explain_node) (PlanState *planstate, ExplainState *es);
	void		(*explain_plan) (const PlannedStmt *plan, const IntoClause *into,
								 ExplainState *es);

	/* A query that changes rows has started. */
	void		(*modify_start) (QueryDesc *query, int eflags);

	/*
	 * A query starts whose plan is pruned while it starts or runs.  What the
	 * first returns, unless that is NULL, is passed to the second after
	 * core's start or its error, which must not throw. The third comes last,
	 * without an error.
	 */
	void	   *(*begin_start) (QueryDesc *query, int eflags);
	void		(*end_start) (void *begun);
	void		(*started) (QueryDesc *query, int eflags);

	/*
	 * A query will be planned, and has been.  What is found out about the
	 * query, which the planner changes, is passed to the second.
	 */
	LaJudgement (*judge_query) (Query *query);
	void		(*mark_plan) (PlannedStmt *plan, const LaJudgement *judgement);

	/*
	 * The execution of a query whose rows become a new table begins, and
	 * ends, be it by an error; they nest.  The second must not throw.
	 */
	void		(*begin_filling) (QueryDesc *query);
	void		(*end_filling) (QueryDesc *query);

	/* The planner has looked at a table. */
	void		(*plan_relation) (PlannerInfo *root, RelOptInfo *rel);

	/* A utility command is about to begin. */
	void		(*before_utility) (void);

	/*
	 * It begins, and ends, be it by an error; they nest.  What the first
	 * returns is passed to the second.  The second must not throw.
	 */
	bool		(*begin_utility) (Node *statement);
	void		(*end_utility) (bool begun);

	/*
	 * Might this feature execute this COPY in core's place?  The other
	 * executes it; false when it is left to core, and nothing has been done
	 * of it.
	 */
	LaFeature	copy_feature;
	bool		(*concerns_copy) (const LaUtility *utility);
	bool		(*run_copy) (const LaUtility *utility, QueryCompletion *qc);
} LaHooks;

extern void la_hooks_install(const LaHooks *hooks);

#endif							/* LA_HOOKS_H */
