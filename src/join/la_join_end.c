/*-------------------------------------------------------------------------
 *
 * la_join_end.c
 *	  will a join be read to its end?
 *
 * It will where each node above it, up to the one whose rows are all wanted, reads all rows of its child when
 * all of its own are read; or above some node that reads everything for its first row.  What is not known to
 * do that counts as one that stops early: LIMIT, EXISTS and other plans of expressions, semi and anti
 * joins, merge joins, a hash join whose other side may be empty, window functions, a cursor that is fetched from a few rows at
 * a time, and in a worker all that its leader may do.  An error anywhere ends the statement, and so does not count.
 *
 * Reads AggState, AppendState, JoinState, MergeAppendState and SubqueryScanState of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "nodes/execnodes.h"

#include "join/la_join_end.h"

static bool find(PlanState *planstate, bool read_to_end,
				 const PlanState *wanted, bool *found_read_to_end);
static bool find_in(PlanState **children, int count, bool read_to_end,
					const PlanState *wanted, bool *found_read_to_end);
static bool outer_is_read(const PlanState *planstate, bool read_to_end);
static bool inner_is_read(const PlanState *planstate, bool read_to_end);

/*
 * Will all rows of this node be read, if no error comes between?
 */
bool
la_join_is_read_to_end(const LaNode *node)
{
	const LaQuery *query = node->query;
	bool		result;
	ListCell   *lc;

	if (find(query->top, !query->partial_fetch && !IsParallelWorker(),
			 node->planstate, &result))
		return result;
	foreach(lc, query->estate->es_subplanstates)
	{
		if (lfirst(lc) != NULL &&
			find(lfirst(lc), false, node->planstate, &result))
			return result;
	}
	return false;
}

/*
 * Looks for a node below another one, which is or is not read to its end.  Returns
 * whether it is there.
 */
static bool
find(PlanState *planstate, bool read_to_end, const PlanState *wanted,
	 bool *found_read_to_end)
{
	if (planstate == NULL)
		return false;
	if (planstate == wanted)
	{
		*found_read_to_end = read_to_end;
		return true;
	}
	switch (nodeTag(planstate))
	{
		case T_AppendState:
			{
				AppendState *node = castNode(AppendState, planstate);

				return find_in(node->appendplans, node->as_nplans, read_to_end,
							   wanted, found_read_to_end);
			}
		case T_MergeAppendState:
			{
				MergeAppendState *node = castNode(MergeAppendState, planstate);

				return find_in(node->mergeplans, node->ms_nplans, read_to_end,
							   wanted, found_read_to_end);
			}
		case T_SubqueryScanState:
			return find(castNode(SubqueryScanState, planstate)->subplan,
						read_to_end, wanted, found_read_to_end);
		default:
			return find(outerPlanState(planstate),
						outer_is_read(planstate, read_to_end),
						wanted, found_read_to_end) ||
				find(innerPlanState(planstate),
					 inner_is_read(planstate, read_to_end),
					 wanted, found_read_to_end);
	}
}

static bool
find_in(PlanState **children, int count, bool read_to_end,
		const PlanState *wanted, bool *found_read_to_end)
{
	for (int i = 0; i < count; i++)
	{
		if (find(children[i], read_to_end, wanted, found_read_to_end))
			return true;
	}
	return false;
}

/*
 * Is the outer child of this node read to its end when the node itself is, or is not?  A hash
 * join does not begin with it, or end with its first row, when the other side is empty and no
 * row of this one comes out.
 */
static bool
outer_is_read(const PlanState *planstate, bool read_to_end)
{
	switch (nodeTag(planstate))
	{
		case T_SortState:
		case T_HashState:
			return true;
		case T_AggState:
			{
				AggStrategy strategy = ((const AggState *) planstate)->aggstrategy;

				return read_to_end || strategy == AGG_PLAIN ||
					strategy == AGG_HASHED;
			}
		case T_HashJoinState:
			{
				JoinType	type = ((const JoinState *) planstate)->jointype;

				return read_to_end &&
					(type == JOIN_LEFT || type == JOIN_FULL || type == JOIN_ANTI);
			}
		case T_NestLoopState:
		case T_MaterialState:
		case T_ResultState:
		case T_ModifyTableState:
		case T_LockRowsState:
		case T_GroupState:
		case T_UniqueState:
		case T_IncrementalSortState:
		case T_GatherState:
		case T_GatherMergeState:
			return read_to_end;
		default:
			return false;
	}
}

static bool
inner_is_read(const PlanState *planstate, bool read_to_end)
{
	const JoinState *join = (const JoinState *) planstate;

	if (IsA(planstate, HashJoinState))
		return read_to_end;
	return IsA(planstate, NestLoopState) && read_to_end &&
		!join->single_match && join->jointype != JOIN_SEMI &&
		join->jointype != JOIN_ANTI;
}
