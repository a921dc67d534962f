/*-------------------------------------------------------------------------
 *
 * la_join_append.c
 *	  the partition of a join's inner side that an outer row wants
 *
 * An Append below the inner side leaves partitions out by what the join's
 * parameters are.  For a row that was drawn ahead core is asked which are
 * left, with that row's values in the parameters.  They are not put back:
 * nobody reads them before the join gives them those of its next row.  Where
 * one partition is left, its index is the target; of a row that several may
 * match, nothing is asked for.
 *
 * What is compared must be parameters as they are, by the server's own
 * functions: nothing that could throw, or be seen to happen early.  A
 * partition is prepared when a row wants it first.  It is known by its
 * relation, because its place among the Append's children depends on which of
 * them were started (la_late_children.c).
 *
 * Reads AppendState of execnodes.h, and PartitionPruneState of execPartition.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "executor/execPartition.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/memutils.h"
#include "varatt.h"

#include "join/la_join_target.h"
#include "la_plain.h"

/*
 * Memory of a statement, in bytes, of which no more is taken for partitions, so that scans and
 * rows have some: arbitrary, thousands of partitions take as much.
 */
#define PARTITION_BYTES (LA_STATEMENT_BYTES / 2)

struct LaJoinAppend
{
	const LaJoinOuter *outer;
	LaQuery    *query;
	AppendState *append;
	LaJoinTarget **children;	/* by their number in pruning; NULL so far */
};

/*
 * A partition that was looked at, and has no index for the join: it is not
 * looked at for each row.
 */
static LaJoinTarget unsuitable;

static bool
is_plain_step(const PartitionPruneStepOp *step)
{
	ListCell   *lc;

	if (!IsA(step, PartitionPruneStepOp))
		return true;			/* combines the results of others */
	foreach(lc, step->exprs)
	{
		Expr	   *expression = lfirst(lc);

		if (!la_plain_comparison(exprType((Node *) expression)))
			return false;
		while (IsA(expression, RelabelType))
			expression = ((RelabelType *) expression)->arg;
		if (!IsA(expression, Param) && !IsA(expression, Const))
			return false;
	}
	foreach(lc, step->cmpfns)
	{
		if (lfirst_oid(lc) >= FirstUnpinnedObjectId)
			return false;
	}
	return true;
}

/*
 * Takes an Append below a join's inner side, if the outer row alone decides
 * which partition it wants, by plain values.  NULL if not.
 */
LaJoinAppend *
la_join_append_create(const LaJoinOuter *outer, AppendState *node)
{
	const Append *plan = (const Append *) node->ps.plan;
	PartitionPruneInfo *info;
	LaJoinAppend *append;
	LaQuery    *query;
	Size		bytes;
	int			parameter = -1;
	ListCell   *lc;
	ListCell   *lc2;
	ListCell   *lc3;

	if (node->as_nplans == 0 || node->as_prune_state == NULL ||
		!node->as_prune_state->do_exec_prune)
		return NULL;
	while ((parameter = bms_next_member(node->as_prune_state->execparamids, parameter)) >= 0)
	{
		if (la_join_outer_column(outer, parameter) == 0)
			return NULL;
	}
	info = list_nth(node->ps.state->es_part_prune_infos, plan->part_prune_index);
	foreach(lc, info->prune_infos)
		foreach(lc2, lfirst(lc))
		foreach(lc3, ((PartitionedRelPruneInfo *) lfirst(lc2))->exec_pruning_steps)
	{
		if (!is_plain_step(lfirst(lc3)))
			return NULL;
	}

	query = la_registry_find_query(node->ps.state);
	bytes = list_length(plan->appendplans) * sizeof(LaJoinTarget *);
	if (query->ring_bytes + bytes > PARTITION_BYTES)
		return NULL;
	query->ring_bytes += bytes;
	append = palloc0_object(LaJoinAppend);
	append->outer = outer;
	append->query = query;
	append->append = node;
	append->children = palloc0(bytes);
	return append;
}

/*
 * Does this scan one partition, and nothing else?
 */
static bool
is_scan(const PlanState *planstate)
{
	return IsA(planstate, IndexScanState) ||
		IsA(planstate, IndexOnlyScanState) ||
		IsA(planstate, BitmapHeapScanState) ||
		IsA(planstate, SeqScanState);
}

/*
 * The table of a partition that was started and has an index for the join, or NULL when none has.
 */
Relation
la_join_append_table(const LaJoinAppend *append)
{
	Relation	table = NULL;

	for (int i = 0; i < append->append->as_nplans && table == NULL; i++)
	{
		PlanState  *planstate = append->append->appendplans[i];
		LaJoinTarget *target;

		if (!is_scan(planstate))
			continue;
		target = la_join_target_below(append->outer, planstate);
		if (target == NULL)
			continue;
		table = target->table;
		pfree(target->search.key);
		pfree(target);
	}
	return table;
}

/*
 * Gives the parameters of the join the values of an outer row.  False when one is stored
 * elsewhere: that would be read twice.
 */
static bool
set_values(LaJoinAppend *append, TupleTableSlot *outer)
{
	ParamExecData *values = append->append->ps.state->es_param_exec_vals;

	for (int i = 0; i < append->outer->nparameters; i++)
	{
		AttrNumber	column = append->outer->columns[i];
		ParamExecData *value = &values[append->outer->parameters[i]];

		value->value = slot_getattr(outer, column, &value->isnull);
		if (!value->isnull &&
			TupleDescAttr(outer->tts_tupleDescriptor, column - 1)->attlen == -1 &&
			VARATT_IS_EXTERNAL(DatumGetPointer(value->value)))
			return false;
	}
	return true;
}

/*
 * Finds a partition's index, unless the partition was not started so far, or there is no
 * memory for it.  Relies on ExecGetRangeTableRelation() in execUtils.c.
 */
static void
prepare_child(LaJoinAppend *append, int child, int relation)
{
	AppendState *node = append->append;
	MemoryContext old;

	/* A scan that was started has opened its table. */
	if (append->query->ring_bytes >= PARTITION_BYTES ||
		node->ps.state->es_relations[relation - 1] == NULL)
		return;
	old = MemoryContextSwitchTo(node->ps.state->es_query_cxt);
	for (int i = 0; i < node->as_nplans; i++)
	{
		/* Where all were started, it is the first one. */
		PlanState  *planstate = node->appendplans[(child + i) % node->as_nplans];
		LaJoinTarget *target;

		if (!is_scan(planstate) ||
			((Scan *) planstate->plan)->scanrelid != relation)
			continue;
		target = la_join_target_below(append->outer, planstate);
		if (target != NULL)
			append->query->ring_bytes += GetMemoryChunkSpace(target) +
				GetMemoryChunkSpace(target->search.key);
		append->children[child] = target != NULL ? target : &unsuitable;
		break;
	}
	MemoryContextSwitchTo(old);
}

/*
 * Where an outer row is looked up.  NULL when it wants no partition, or several, or
 * one of which that cannot be told.
 */
LaJoinTarget *
la_join_append_child(LaJoinAppend *append, TupleTableSlot *outer)
{
	Bitmapset  *relations = NULL;
	Bitmapset  *children;
	LaJoinTarget *target = NULL;
	int			child;
	int			relation;

	if (!set_values(append, outer))
		return NULL;
	children = ExecFindMatchingSubPlans(append->append->as_prune_state, false,
										&relations);
	if (bms_get_singleton_member(children, &child) &&
		bms_get_singleton_member(relations, &relation))
	{
		if (append->children[child] == NULL)
			prepare_child(append, child, relation);
		if (append->children[child] != &unsuitable)
			target = append->children[child];
	}
	bms_free(children);
	bms_free(relations);
	return target;
}
