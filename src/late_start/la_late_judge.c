/*-------------------------------------------------------------------------
 *
 * la_late_judge.c
 *	  which nodes of a plan may start their children late
 *
 * A child that starts late must do so without a word: whatever core would have
 * raised when the query started must have been raised then.  Core starts the
 * first child as ever, so a child qualifies that cannot fail where that one
 * has not: a scan of a table, but no bitmap heap scan, whose expressions are
 * of a few plain kinds and call functions that the first child calls too
 * (whoever must not call a function is told so when the expression is
 * prepared).  They are the server's own, which nobody can drop.  Where one
 * child does not qualify, its parent is core's.
 *
 * That takes time in proportion to the plan, so it is found out once for a plan, and
 * forgotten when the memory of the plan is reset.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "common/hashfn.h"
#include "nodes/nodeFuncs.h"
#include "utils/memutils.h"

#include "attach/la_plan_children.h"
#include "late_start/la_late_judge.h"
#include "la_plain.h"

typedef struct FindingEntry
{
	const PlannedStmt *statement;	/* hash key */
	LaLateFinding *finding;
	char		status;
} FindingEntry;

#define SH_PREFIX findingtable
#define SH_ELEMENT_TYPE FindingEntry
#define SH_KEY_TYPE const PlannedStmt *
#define SH_KEY statement
#define SH_HASH_KEY(tb, key) murmurhash64((uint64) (uintptr_t) (key))
#define SH_EQUAL(tb, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* Initial size of the hash table: arbitrary; it grows. */
#define FINDING_TABLE_SIZE 64

static findingtable_hash *finding_table = NULL;

/*
 * What a walk through the children of one node knows.
 */
typedef struct Siblings
{
	bool		first;			/* is the first child looked at? */
	List	   *functions;		/* that it calls, by OID */
	bool		external;		/* does one have a parameter of the statement? */
} Siblings;

/*
 * Memory context callback: a plan goes.  Must not throw.
 */
static void
forget_finding(void *arg)
{
	const LaLateFinding *finding = (const LaLateFinding *) arg;

	findingtable_delete(finding_table, finding->statement);
}

/*
 * Is pruned while the query runs?  Notes whether it is when it starts.
 */
static bool
prunes_late(const PartitionPruneInfo *info, bool *early)
{
	bool		late = false;
	ListCell   *tree;
	ListCell   *table;

	foreach(tree, info->prune_infos)
	{
		foreach(table, lfirst_node(List, tree))
		{
			const PartitionedRelPruneInfo *part = lfirst(table);

			*early |= part->initial_pruning_steps != NIL;
			late |= part->exec_pruning_steps != NIL;
		}
	}
	return late;
}

/*
 * Is a query one that only reads, in this process alone, locks no rows, and runs no
 * function while it starts: prunes nothing then?
 */
static bool
is_plain_query(const PlannedStmt *statement)
{
	bool		early = false;
	ListCell   *lc;

	if (statement->commandType != CMD_SELECT || statement->hasModifyingCTE ||
		statement->rowMarks != NIL || statement->parallelModeNeeded)
		return false;
	foreach(lc, statement->partPruneInfos)
		(void) prunes_late(lfirst_node(PartitionPruneInfo, lc), &early);
	return !early;
}

/*
 * check_functions_in_node callback: is a function one that can be dropped, or that
 * the first child does not call?
 */
static bool
is_foreign_function(Oid function, void *context)
{
	Siblings   *siblings = (Siblings *) context;

	if (!OidIsValid(function))
		return false;
	if (function >= FirstUnpinnedObjectId)
		return true;
	if (siblings->first)
	{
		siblings->functions = list_append_unique_oid(siblings->functions, function);
		return false;
	}
	return !list_member_oid(siblings->functions, function);
}

/*
 * expression_tree_walker callback: stops at what does not qualify.  The kinds of
 * nodes are those for which nothing but functions, and types of arrays, is
 * looked up; whether a function may be called is asked for
 * those that check_functions_in_node() knows, and for that which hashes an array.
 * Relies on ExecInitExprRec() in execExpr.c; relies on ExecInitFunc() in execExpr.c.
 */
static bool
differs(Node *node, void *context)
{
	Siblings   *siblings = (Siblings *) context;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Param:
			if (castNode(Param, node)->paramkind == PARAM_EXTERN)
				siblings->external = true;
			break;
		case T_ScalarArrayOpExpr:
			if (is_foreign_function(((ScalarArrayOpExpr *) node)->hashfuncid, context) ||
				is_foreign_function(((ScalarArrayOpExpr *) node)->negfuncid, context))
				return true;
			break;
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ArrayExpr:
			break;
		default:
			if (!la_plain_node(node))
				return true;
			break;
	}
	if (check_functions_in_node(node, is_foreign_function, context))
		return true;
	return expression_tree_walker(node, differs, context);
}

/*
 * Can expressions be prepared at any time, with no other outcome than those of the first child?
 */
static bool
are_plain(List *expressions, Siblings *siblings)
{
	return !differs((Node *) expressions, siblings);
}

static bool
is_plain_scan(Plan *plan, Siblings *siblings)
{
	if (plan->parallel_aware || plan->async_capable || plan->initPlan != NIL ||
		!are_plain(plan->targetlist, siblings) ||
		!are_plain(plan->qual, siblings))
		return false;
	switch (nodeTag(plan))
	{
		case T_SeqScan:
			return true;
		case T_IndexScan:
			{
				const IndexScan *scan = (const IndexScan *) plan;

				return scan->indexorderby == NIL &&
					are_plain(scan->indexqual, siblings) &&
					are_plain(scan->indexqualorig, siblings);
			}
		case T_IndexOnlyScan:
			{
				const IndexOnlyScan *scan = (const IndexOnlyScan *) plan;

				return scan->indexorderby == NIL &&
					are_plain(scan->indexqual, siblings) &&
					are_plain(scan->recheckqual, siblings);
			}
		default:
			return false;
	}
}

static bool
is_parent(Plan *plan, LaLateFinding *finding)
{
	List	  **children = la_late_children_of(plan);
	Siblings	siblings = {.first = true};
	bool		early = false;
	int			number;
	ListCell   *lc;

	if (children == NULL || plan->parallel_aware)
		return false;
	number = IsA(plan, Append) ? castNode(Append, plan)->part_prune_index :
		castNode(MergeAppend, plan)->part_prune_index;
	if (number < 0 ||
		!prunes_late(list_nth_node(PartitionPruneInfo,
								   finding->statement->partPruneInfos, number), &early))
		return false;
	foreach(lc, *children)
	{
		if (!is_plain_scan((Plan *) lfirst(lc), &siblings))
			return false;
		siblings.first = false;
	}
	list_free(siblings.functions);
	finding->external |= siblings.external;
	return true;
}

/*
 * la_plan_children callback: finds the nodes whose children may start late, in this plan and
 * below.  Nothing is known of what a custom scan does with plans below it.
 */
static bool
find_parents(Plan *plan, void *context)
{
	LaLateFinding *finding = (LaLateFinding *) context;

	if (is_parent(plan, finding))
		finding->parents = lappend(finding->parents, plan);
	else if (!IsA(plan, CustomScan))
		(void) la_plan_children(plan, find_parents, finding);
	return false;
}

const LaLateFinding *
la_late_judge(PlannedStmt *statement)
{
	FindingEntry *entry;
	LaLateFinding *finding;
	MemoryContext old;
	ListCell   *lc;
	bool		found;

	if (finding_table == NULL)
		finding_table = findingtable_create(TopMemoryContext,
											FINDING_TABLE_SIZE, NULL);
	entry = findingtable_lookup(finding_table, statement);
	if (entry != NULL)
		return entry->finding;

	old = MemoryContextSwitchTo(GetMemoryChunkContext(statement));
	finding = palloc0(sizeof(LaLateFinding));
	finding->statement = statement;
	finding->on_reset.func = forget_finding;
	finding->on_reset.arg = finding;
	if (is_plain_query(statement))
	{
		(void) find_parents(statement->planTree, finding);
		foreach(lc, statement->subplans)
		{
			if (lfirst(lc) != NULL)
				(void) find_parents(lfirst(lc), finding);
		}
	}
	findingtable_insert(finding_table, statement, &found)->finding = finding;
	Assert(!found);
	MemoryContextRegisterResetCallback(CurrentMemoryContext,
									   &finding->on_reset);
	MemoryContextSwitchTo(old);
	return finding;
}

/*
 * Where an Append or MergeAppend has its children, NULL for other nodes.
 */
List	  **
la_late_children_of(Plan *parent)
{
	if (IsA(parent, Append))
		return &castNode(Append, parent)->appendplans;
	if (IsA(parent, MergeAppend))
		return &castNode(MergeAppend, parent)->mergeplans;
	return NULL;
}
