/*-------------------------------------------------------------------------
 *
 * la_join_end.c
 *	  will a join be read to its end, and how many more of its rows are wanted if not?
 *
 * It will where each node above it, up to the one whose rows are all wanted,
 * reads all rows of its child when all of its own are read; or above some node
 * that reads everything for its first row.  What is not known to do that
 * counts as one that stops early: LIMIT, EXISTS and other plans of
 * expressions, semi and anti joins, merge joins, and a cursor that is fetched
 * from a few rows at a time.  An error anywhere ends the statement, and so
 * does not count.  A parallel worker knows its own part of the plan only.
 *
 * A hash join leaves its outer side when its inner side turns out to be empty.  That is not
 * known until the hash table is built, which may be after the first outer row.
 *
 * Reads AggState, AppendState, HashJoinState, JoinState, MergeAppendState and SubqueryScanState of
 * execnodes.h, HashJoinTableData of hashjoin.h, and plannodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "executor/hashjoin.h"
#include "nodes/execnodes.h"

#include "join/la_join_end.h"

typedef struct EndSearch
{
	const PlanState *wanted;
	LaJoinEnd	end;			/* of that one */
	PlanState  *awaited;		/* see LaNode */
} EndSearch;

static bool find_below(PlanState *planstate, LaJoinEnd end, EndSearch *search);

static bool
find_in(PlanState **children, int count, LaJoinEnd end, EndSearch *search)
{
	for (int i = 0; i < count; i++)
	{
		if (find_below(children[i], end, search))
			return true;
	}
	return false;
}

/*
 * The outer side of a hash join, which core leaves when the hash table is empty and no row
 * comes out without a match (relies on ExecHashJoinImpl() in nodeHashjoin.c).  A table
 * that depends on parameters may be empty after a rescan.
 */
static LaJoinEnd
end_of_probe(const HashJoinState *join, LaJoinEnd end)
{
	JoinType	type = join->js.jointype;

	if (end == LA_JOIN_MAY_STOP || type == JOIN_LEFT || type == JOIN_FULL ||
		type == JOIN_ANTI)
		return end;
	if (!bms_is_empty(join->js.ps.plan->extParam))
		return LA_JOIN_MAY_STOP;
	if (join->hj_HashTable == NULL)
		return LA_JOIN_NOT_KNOWN_YET;
	return join->hj_HashTable->totalTuples > 0 ? end : LA_JOIN_MAY_STOP;
}

/*
 * How does the outer child of this node end?
 */
static LaJoinEnd
end_of_outer(const PlanState *planstate, LaJoinEnd end)
{
	switch (nodeTag(planstate))
	{
		case T_SortState:
		case T_HashState:
			return LA_JOIN_READ_TO_END;
		case T_AggState:
			{
				AggStrategy strategy = ((const AggState *) planstate)->aggstrategy;

				return strategy == AGG_PLAIN || strategy == AGG_HASHED ?
					LA_JOIN_READ_TO_END : end;
			}
		case T_HashJoinState:
			return end_of_probe((const HashJoinState *) planstate, end);
		case T_WindowAggState:
			return la_join_stops_early(planstate) ? LA_JOIN_MAY_STOP : end;
		case T_NestLoopState:
		case T_MaterialState:
		case T_ResultState:
		case T_ProjectSetState:
		case T_ModifyTableState:
		case T_LockRowsState:
		case T_GroupState:
		case T_UniqueState:
		case T_IncrementalSortState:
		case T_GatherState:
		case T_GatherMergeState:
			return end;
		default:
			return LA_JOIN_MAY_STOP;
	}
}

static LaJoinEnd
end_of_inner(const PlanState *planstate, LaJoinEnd end)
{
	return IsA(planstate, HashJoinState) ||
		(IsA(planstate, NestLoopState) && !la_join_stops_early(planstate)) ?
		end : LA_JOIN_MAY_STOP;
}

/*
 * Looks for the node below another one, of whose own end is known how it comes.  Returns
 * whether it is there.
 */
static bool
find_below(PlanState *planstate, LaJoinEnd end, EndSearch *search)
{
	LaJoinEnd	outer;

	if (planstate == NULL)
		return false;
	if (planstate == search->wanted)
	{
		search->end = end;
		return true;
	}
	switch (nodeTag(planstate))
	{
		case T_AppendState:
			return find_in(((AppendState *) planstate)->appendplans,
						   ((AppendState *) planstate)->as_nplans, end, search);
		case T_MergeAppendState:
			return find_in(((MergeAppendState *) planstate)->mergeplans,
						   ((MergeAppendState *) planstate)->ms_nplans, end, search);
		case T_SubqueryScanState:
			return find_below(((SubqueryScanState *) planstate)->subplan, end, search);
		default:
			break;
	}
	outer = end_of_outer(planstate, end);
	if (find_below(outerPlanState(planstate), outer, search))
	{
		if (outer == LA_JOIN_NOT_KNOWN_YET && end != LA_JOIN_NOT_KNOWN_YET)
			search->awaited = planstate;
		return true;
	}
	return find_below(innerPlanState(planstate), end_of_inner(planstate, end), search);
}

static void
search_plans(const LaQuery *query, EndSearch *search)
{
	ListCell   *lc;

	if (find_below(query->top,
				   query->bounded ? LA_JOIN_MAY_STOP :
				   IsParallelWorker() ? LA_JOIN_MAY_BE_STOPPED : LA_JOIN_READ_TO_END,
				   search))
		return;
	foreach(lc, query->estate->es_subplanstates)
	{
		if (find_below(lfirst(lc), LA_JOIN_MAY_STOP, search))
			return;
	}
}

/*
 * Will all rows of this node be read, if no error comes between?
 */
LaJoinEnd
la_join_end(LaNode *node)
{
	EndSearch	search = {.wanted = node->planstate,.end = LA_JOIN_MAY_STOP};

	search_plans(node->query, &search);
	node->awaited = search.awaited;
	return search.end;
}

/*
 * How many more rows of a node that may be left early are wanted.  As many as
 * the Limit above still lacks, if all of its rows are wanted (limit_counts);
 * fewer where each of the used rows gave it several, which is what it has got
 * beyond given_before.  Otherwise no more than were used.
 */
uint64
la_join_rows_wanted(const LaNode *node, bool limit_counts, uint64 used, int64 given_before)
{
	uint64		wanted = la_registry_rows_wanted(node);
	double		given;

	if (!limit_counts || wanted == PG_UINT64_MAX)
		return Min(wanted, Max(used, 1));
	given = (double) node->limit->position - given_before;
	return given > used && used > 0 ? wanted * (used / given) + 1 : wanted;
}

/*
 * Are all rows of the Limit above wanted, if there is one?
 */
bool
la_join_end_limit_counts(const LaNode *node)
{
	EndSearch	search = {.wanted = (const PlanState *) node->limit,.end = LA_JOIN_MAY_STOP};

	if (node->limit == NULL)
		return false;
	search_plans(node->query, &search);
	return search.end == LA_JOIN_READ_TO_END;
}

/*
 * May a node leave a child before its end, as a Limit does?  A semi join
 * leaves its inner side, a merge join either, and a WindowAgg ends with its
 * run condition.
 */
bool
la_join_stops_early(const PlanState *planstate)
{
	const JoinState *join = (const JoinState *) planstate;

	if (IsA(planstate, NestLoopState))
		return join->single_match || join->jointype == JOIN_SEMI ||
			join->jointype == JOIN_ANTI;
	if (IsA(planstate, WindowAggState))
		return ((const WindowAgg *) planstate->plan)->runCondition != NIL;
	return IsA(planstate, LimitState) || IsA(planstate, MergeJoinState);
}

/*
 * Is it still not known?
 */
bool
la_join_end_is_awaited(const LaNode *node)
{
	return node->awaited != NULL &&
		castNode(HashJoinState, node->awaited)->hj_HashTable == NULL;
}
