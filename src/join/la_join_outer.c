/*-------------------------------------------------------------------------
 *
 * la_join_outer.c
 *	  what outer rows give to the plans that are executed for each of them
 *
 * A nested loop gives columns of its outer side to its inner side; a scan
 * gives those of its table to the plans that its expressions call.  Both do so
 * by parameters.
 *
 * Reads NestLoopState and SubPlanState of execnodes.h, and NestLoop of plannodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/plannodes.h"
#include "nodes/primnodes.h"

#include "join/la_join_outer.h"

static LaJoinOuter *
make_outer(PlanState *node, int most)
{
	LaJoinOuter *outer = palloc0_object(LaJoinOuter);

	outer->node = node;
	outer->parameters = palloc_array(int, most);
	outer->columns = palloc_array(AttrNumber, most);
	return outer;
}

static void
add_parameter(LaJoinOuter *outer, int parameter, AttrNumber column)
{
	outer->parameters[outer->nparameters] = parameter;
	outer->columns[outer->nparameters++] = column;
}

/*
 * Allocates in the current memory context, as all here.
 */
LaJoinOuter *
la_join_outer_of_loop(NestLoopState *loop)
{
	const List *parameters = ((const NestLoop *) loop->js.ps.plan)->nestParams;
	LaJoinOuter *outer = make_outer(&loop->js.ps, list_length(parameters));
	ListCell   *lc;

	foreach(lc, parameters)
	{
		const NestLoopParam *parameter = (const NestLoopParam *) lfirst(lc);

		add_parameter(outer, parameter->paramno, parameter->paramval->varattno);
	}
	return outer;
}

/*
 * Of a scan, columns of the table as they are.
 */
LaJoinOuter *
la_join_outer_of_scan(ScanState *scan)
{
	LaJoinOuter *outer;
	int			most = 0;
	ListCell   *lc;
	ListCell   *lc2;
	ListCell   *lc3;

	foreach(lc, scan->ps.subPlan)
		most += list_length(lfirst_node(SubPlanState, lc)->subplan->parParam);
	outer = make_outer(&scan->ps, most);
	foreach(lc, scan->ps.subPlan)
	{
		const SubPlanState *called = lfirst_node(SubPlanState, lc);

		if (!la_join_calls_per_row(called))
			continue;
		forboth(lc2, called->subplan->parParam, lc3, called->subplan->args)
		{
			const Var  *column = lfirst(lc3);

			if (IsA(column, Var) && column->varattno > 0)
				add_parameter(outer, lfirst_int(lc2), column->varattno);
		}
	}
	return outer;
}

/*
 * Is this plan executed anew for each row?
 */
bool
la_join_calls_per_row(const SubPlanState *subplan)
{
	return subplan->subplan->parParam != NIL && !subplan->subplan->useHashTable;
}

/*
 * The outer column that is given as this parameter, or 0.
 */
AttrNumber
la_join_outer_column(const LaJoinOuter *outer, int parameter)
{
	for (int i = 0; i < outer->nparameters; i++)
	{
		if (outer->parameters[i] == parameter)
			return outer->columns[i];
	}
	return 0;
}
