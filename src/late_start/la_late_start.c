/*-------------------------------------------------------------------------
 *
 * la_late_start.c
 *	  starts a query without most children of nodes that are pruned at run time
 *
 * An Append (or MergeAppend) whose partitions are chosen by a parameter of the plan has
 * all of them started by core, thousands, to read one.  No hook lies between the
 * start of a node and that of its children, so the list of its children in the
 * plan is exchanged while standard_ExecutorStart() runs: for the first child, which
 * core starts as ever, and a stand-in.  Afterwards it is put back.  Plans whose
 * start runs functions of users are not among these (la_late_judge.c), so nobody
 * sees the plan changed but hooks of other extensions; and if one of
 * those starts the same plan, it gets the same stand-in, and loses it likewise.
 *
 * The stand-in is a CustomScan because core starts those by calling us.  It
 * learns the flags with which children of this node are started, and has rows in
 * any kind of slot, so that nodes above expect any: what kinds the children will
 * return is not known yet.  After the start it is taken out of the tree again
 * (la_late_children.c), before anybody executes it.
 *
 * Left to core are queries whose nodes somebody will look at (EXPLAIN, auto_explain,
 * instrumentation), cursors (WHERE CURRENT OF searches the tree for the scan of a
 * table; they can be read backward, and kept), and parallel workers.
 *
 * Reads AppendState and MergeAppendState of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "access/parallel.h"
#include "access/xlog.h"
#include "executor/executor.h"
#include "nodes/extensible.h"
#include "nodes/nodeFuncs.h"
#include "tcop/pquery.h"
#include "utils/guc.h"
#include "utils/portal.h"

#include "la_counters.h"
#include "la_feature.h"
#include "late_start/la_late_children.h"
#include "late_start/la_late_judge.h"
#include "late_start/la_late_start.h"

/*
 * With fewer children than this all are started: there is little to gain.  Arbitrary.
 */
#define LEAST_CHILDREN 16

/* Flags of queries that never run, or whose nodes have to go back. */
#define OTHER_FLAGS (EXEC_FLAG_EXPLAIN_ONLY | EXEC_FLAG_EXPLAIN_GENERIC | \
					 EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK | \
					 EXEC_FLAG_WITH_NO_DATA)

/*
 * What is exchanged in a plan while the query starts.
 */
typedef struct LateStart
{
	int			count;
	struct
	{
		List	  **place;		/* of the list of children in the plan */
		List	   *children;	/* that belongs there */
		List	   *instead;	/* the first of them, and a stand-in */
	}			exchanged[FLEXIBLE_ARRAY_MEMBER];
} LateStart;

typedef struct StandInState
{
	CustomScanState css;
	int			eflags;			/* with which children are started here */
} StandInState;

static bool enable_late_start = false;

#ifdef LA_TEST
static int	test_late_children = -1;
#endif

const LaSetting la_late_settings[] = {
	{
		.name = "pg_lookahead.enable_late_start",
		.summary = "Enables starting scans of partitions only once pruning at run time has left them.",
		.flag = &enable_late_start,
		.context = PGC_USERSET,
		.flags = GUC_EXPLAIN,
	},
#ifdef LA_TEST
	{
		.name = "pg_lookahead.test_late_children",
		.summary = "Sets the number of children from which on they start late.",
		.detail = "-1 uses the default.",
		LA_TEST_NUMBER(&test_late_children, -1, INT_MAX),
	},
#endif
	{0}
};

/* How many queries whose start we watch are starting now, one in another. */
static int	starting = 0;

static const LaFeatureInfo feature = {
	.name = "late_start",
	.enabled = &enable_late_start,
	.counters = LA_COUNTER(scans),
};

const LaFeatureMethods la_late_start_methods = {
	.info = &feature,
};

static int
least_children(void)
{
#ifdef LA_TEST
	if (test_late_children >= 0)
		return Max(test_late_children, 2);
#endif
	return LEAST_CHILDREN;
}

/*
 * Is it a cursor's?  Its portal is about to be ready then, and can be named in
 * SQL: not the one of a client that names none, nor that of EXECUTE.  Relies on
 * PortalStart() in pquery.c.
 */
static bool
is_cursor(void)
{
	return ActivePortal != NULL && ActivePortal->status == PORTAL_DEFINED &&
		ActivePortal->visible && ActivePortal->name[0] != '\0';
}

/*
 * Will auto_explain print it?  That looks at the plan when the query ends.
 */
static bool
is_explained(void)
{
	const char *least = GetConfigOption("auto_explain.log_min_duration",
										true, false);

	return least != NULL && strcmp(least, "-1") != 0;
}

/*
 * Is a query one for which all children start, whatever its plan?  None is
 * that may be asked about its nodes, or runs in a parallel worker.  On a standby, only a lock on
 * an index keeps away a replayed REINDEX, whose new index may miss rows that the query sees.
 */
static bool
is_for_core(const QueryDesc *queryDesc, int eflags)
{
	return (eflags & OTHER_FLAGS) != 0 ||
		queryDesc->instrument_options != 0 ||
		IsParallelWorker() || RecoveryInProgress() || is_cursor() || is_explained();
}

/*
 * CustomExecMethods.  Relies on ExecGetCommonSlotOps() in execUtils.c: one child
 * whose slots are not of a fixed kind makes those of its parent so.
 */
static void
begin_state(CustomScanState *node, EState *estate, int eflags)
{
	node->ss.ps.resultopsfixed = false;
	((StandInState *) node)->eflags = eflags;
}

static TupleTableSlot *
execute_state(CustomScanState *node)
{
	elog(ERROR, "stand-in for plan nodes that start late is executed");
	return NULL;
}

static void
do_nothing(CustomScanState *node)
{
}

static const CustomExecMethods exec_methods = {
	.CustomName = "late start",
	.BeginCustomScan = begin_state,
	.ExecCustomScan = execute_state,
	.EndCustomScan = do_nothing,
	.ReScanCustomScan = do_nothing,
};

/*
 * Core starts a stand-in: CustomScanMethods.
 */
static Node *
create_state(CustomScan *scan)
{
	StandInState *state = palloc0(sizeof(StandInState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;
	return (Node *) state;
}

static const CustomScanMethods scan_methods = {
	.CustomName = "late start",
	.CreateCustomScanState = create_state,
};

static CustomScan *
stand_in(Plan *plan)
{
	if (IsA(plan, CustomScan) &&
		castNode(CustomScan, plan)->methods == &scan_methods)
		return castNode(CustomScan, plan);
	return NULL;
}

/*
 * Makes ready what will be exchanged; it may fail, the exchange may not.
 */
static LateStart *
prepare_exchange(const LaLateFinding *finding)
{
	LateStart  *start = palloc(offsetof(LateStart, exchanged) +
							   list_length(finding->parents) *
							   sizeof(start->exchanged[0]));
	ListCell   *lc;

	start->count = 0;
	foreach(lc, finding->parents)
	{
		List	  **place = la_late_children_of((Plan *) lfirst(lc));

		CustomScan *scan;

		if (list_length(*place) < least_children() ||
			stand_in((Plan *) lsecond(*place)) != NULL)
			continue;
		scan = makeNode(CustomScan);
		scan->methods = &scan_methods;
		scan->custom_private = list_make1(*place);

		start->exchanged[start->count].place = place;
		start->exchanged[start->count].children = *place;
		start->exchanged[start->count].instead = list_make2(linitial(*place), scan);
		start->count++;
	}
	return start;
}

/*
 * A query will start whose plan is pruned at run time.  NULL when it is left to core.
 */
void *
la_late_begin_start(QueryDesc *queryDesc, int eflags)
{
	static const LaLateFinding nothing = {0};
	const LaLateFinding *finding = &nothing;
	LateStart  *start;

	if (la_feature_enabled(LA_FEATURE_LATE_START) &&
		!is_for_core(queryDesc, eflags))
		finding = la_late_judge(queryDesc->plannedstmt);
	if (finding->external && queryDesc->params != NULL &&
		queryDesc->params->paramCompile != NULL)
		finding = &nothing;

	/* Within the start of another query, its plan may be this one. */
	if (finding->parents == NIL && starting == 0)
		return NULL;
	start = prepare_exchange(finding);
	for (int i = 0; i < start->count; i++)
		*start->exchanged[i].place = start->exchanged[i].instead;
	starting++;
	return start;
}

/*
 * It has started, or failed: the plan is as it was.  Must not throw.
 */
void
la_late_end_start(void *begun)
{
	const LateStart *start = (const LateStart *) begun;

	starting--;
	for (int i = 0; i < start->count; i++)
		*start->exchanged[i].place = start->exchanged[i].children;
}

/*
 * Gives a node that has a stand-in its children.
 */
static void
settle_children(PlanState *parent, PlanState **children, int count, bool late)
{
	const CustomScan *scan;

	if (count != 2)
		return;
	scan = stand_in(children[1]->plan);
	if (scan != NULL)
		la_late_adopt(parent, children[0],
					  (List *) linitial(scan->custom_private),
					  ((const StandInState *) children[1])->eflags, late);
}

/*
 * planstate_tree_walker callback: parents come before their children.
 */
static bool
settle_below(PlanState *planstate, void *context)
{
	bool		late = *(const bool *) context;

	if (planstate == NULL)
		return false;
	if (IsA(planstate, AppendState))
	{
		const AppendState *append = castNode(AppendState, planstate);

		settle_children(planstate, append->appendplans, append->as_nplans, late);
	}
	else if (IsA(planstate, MergeAppendState))
	{
		const MergeAppendState *merge = castNode(MergeAppendState, planstate);

		settle_children(planstate, merge->mergeplans, merge->ms_nplans, late);
	}
	return planstate_tree_walker(planstate, settle_below, context);
}

/*
 * It has started: stand-ins go out of its tree.  Both the main tree and
 * es_subplanstates are walked.
 */
void
la_late_started(QueryDesc *queryDesc, int eflags)
{
	EState	   *estate = queryDesc->estate;
	bool		late = !is_for_core(queryDesc, eflags) &&
		estate->es_instrument == 0;
	ListCell   *lc;

	settle_below(queryDesc->planstate, &late);
	foreach(lc, estate->es_subplanstates)
		settle_below((PlanState *) lfirst(lc), &late);
}
