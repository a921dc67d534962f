/*-------------------------------------------------------------------------
 *
 * la_needed_projection.c
 *	  rows that are looked at when core forms them
 *
 * Core forms the row to be stored by a projection: of INSERT, UPDATE and each action of MERGE.
 * The projection's function is ours.  It calls core's, and has a partition created that
 * the row lacks.
 *
 * An INSERT has no projection, so it is given one that copies.  An
 * UPDATE is watched if it sets columns of the key, and no BEFORE trigger may do so.
 *
 * Mirrors ExecInitInsertProjection(), ExecCheckPlanOutput() and ExecInitUpdateProjection() in
 * nodeModifyTable.c.  Reads ModifyTableState, ResultRelInfo, ProjectionInfo and ExprState of
 * execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/tableam.h"
#include "catalog/partition.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/rel.h"

#include "needed_partitions/la_needed_projection.h"

/*
 * ExprStateEvalFunc of the projection that an INSERT is given.  The row is complete by then, as
 * ExecProject() would say a moment later.
 */
static Datum
copy_row(ExprState *projection, ExprContext *context, bool *is_null)
{
	LaNeeded   *needed = la_needed_find((ModifyTableState *) projection->parent);
	TupleTableSlot *from = context->ecxt_outertuple;
	TupleTableSlot *row = projection->resultslot;

	slot_getallattrs(from);
	memcpy(row->tts_values, from->tts_values, from->tts_nvalid * sizeof(Datum));
	memcpy(row->tts_isnull, from->tts_isnull, from->tts_nvalid * sizeof(bool));
	ExecStoreVirtualTuple(row);
	if (unlikely(la_needed_lacks(needed, NULL, row)))
		la_needed_provide(needed);
	return (Datum) 0;
}

/*
 * What is not the row of the table, core refuses.
 */
static void
watch_insert(LaNeeded *needed)
{
	ModifyTableState *node = needed->node;
	ResultRelInfo *target = node->resultRelInfo;
	ProjectionInfo *copy = &needed->copy;

	if (target->ri_projectNewInfoValid ||
		!la_needed_is_row(outerPlan(node->ps.plan)->targetlist, needed->table))
		return;
	target->ri_newTupleSlot = table_slot_create(needed->table,
												&node->ps.state->es_tupleTable);
	copy->type = T_ProjectionInfo;
	copy->pi_exprContext = GetPerTupleExprContext(node->ps.state);
	copy->pi_state.type = T_ExprState;
	copy->pi_state.parent = &node->ps;
	copy->pi_state.resultslot = target->ri_newTupleSlot;
	copy->pi_state.evalfunc = copy_row;
	target->ri_projectNew = copy;
	target->ri_projectNewInfoValid = true;
}

/*
 * The key, of a row of this partition.
 */
static Expr *
key_of_relation(const LaNeeded *needed, Relation relation)
{
	return linitial(map_partition_varattnos(list_make1(la_needed_key(needed->table)), 1,
											relation, needed->table));
}

static bool
sets_key(const LaNeeded *needed)
{
	Relation	first = needed->node->resultRelInfo[0].ri_RelationDesc;
	List	   *columns = linitial(needed->node->mt_updateColnosLists);
	Bitmapset  *of_key = NULL;

	pull_varattnos((Node *) key_of_relation(needed, first), 1, &of_key);
	foreach_int(column, columns)
	{
		if (bms_is_member(column - FirstLowInvalidHeapAttributeNumber, of_key))
			return true;
	}
	return false;
}

/*
 * A trigger may put another key into the row, or leave the row as it is, before core looks for
 * a partition.
 */
static bool
has_trigger(const ResultRelInfo *target)
{
	return target->ri_TrigDesc != NULL && target->ri_TrigDesc->trig_update_before_row;
}

/*
 * What core would do at the first row of this partition.
 */
static void
init_update(ModifyTableState *node, int relation)
{
	ResultRelInfo *target = &node->resultRelInfo[relation];
	List	  **slots = &node->ps.state->es_tupleTable;

	if (node->ps.ps_ExprContext == NULL)
		ExecAssignExprContext(node->ps.state, &node->ps);
	target->ri_oldTupleSlot = table_slot_create(target->ri_RelationDesc, slots);
	target->ri_newTupleSlot = table_slot_create(target->ri_RelationDesc, slots);
	target->ri_projectNew =
		ExecBuildUpdateProjection(outerPlan(node->ps.plan)->targetlist, false,
								  list_nth(node->mt_updateColnosLists, relation),
								  RelationGetDescr(target->ri_RelationDesc),
								  node->ps.ps_ExprContext,
								  target->ri_newTupleSlot, &node->ps);
	target->ri_projectNewInfoValid = true;
}

static int
compare_watched(const void *a, const void *b)
{
	const ExprState *first = ((const LaWatched *) a)->projection;
	const ExprState *second = ((const LaWatched *) b)->projection;

	return first < second ? -1 : first > second;
}

/*
 * ExprStateEvalFunc of a projection that is watched.  Core's functions put another in their
 * place when they are called first.  The row is complete by then, as ExecProject() would say
 * a moment later.
 */
static Datum
evaluate(ExprState *projection, ExprContext *context, bool *is_null)
{
	LaNeeded   *needed = la_needed_find((ModifyTableState *) projection->parent);
	LaWatched	wanted = {.projection = projection};
	LaWatched  *watched = bsearch(&wanted, needed->watched, needed->count,
								  sizeof(LaWatched), compare_watched);
	Datum		result;

	projection->evalfunc = watched->evaluate;
	result = projection->evalfunc(projection, context, is_null);
	watched->evaluate = projection->evalfunc;
	projection->evalfunc = evaluate;

	ExecStoreVirtualTuple(projection->resultslot);
	if (unlikely(la_needed_lacks(needed, watched->key, projection->resultslot)))
		la_needed_provide(needed);
	return result;
}

/*
 * Rows of this projection are looked at; without a key they are of the table itself.
 */
static void
watch_projection(LaNeeded *needed, ProjectionInfo *projection, Expr *key)
{
	LaWatched  *watched = &needed->watched[needed->count++];

	watched->projection = &projection->pi_state;
	watched->evaluate = projection->pi_state.evalfunc;
	watched->key = key == NULL ? NULL : ExecPrepareExpr(key, needed->node->ps.state);
	projection->pi_state.evalfunc = evaluate;
}

/*
 * All partitions have the same columns set.
 */
static void
watch_update(LaNeeded *needed)
{
	ModifyTableState *node = needed->node;

	if (!sets_key(needed))
		return;
	needed->watched = palloc_array(LaWatched, node->mt_nrels);
	for (int i = 0; i < node->mt_nrels; i++)
	{
		ResultRelInfo *target = &node->resultRelInfo[i];

		if (has_trigger(target))
			continue;
		if (!target->ri_projectNewInfoValid)
			init_update(node, i);
		watch_projection(needed, target->ri_projectNew,
						 key_of_relation(needed, target->ri_RelationDesc));
	}
}

/*
 * Each partition has actions of its own.
 */
static void
watch_merge(LaNeeded *needed)
{
	ModifyTableState *node = needed->node;
	int			size = 0;

	for (int i = 0; i < node->mt_nrels; i++)
	{
		for (int kind = 0; kind < NUM_MERGE_MATCH_KINDS; kind++)
			size += list_length(node->resultRelInfo[i].ri_MergeActions[kind]);
	}
	needed->watched = palloc_array(LaWatched, size);
	for (int i = 0; i < node->mt_nrels; i++)
	{
		ResultRelInfo *target = &node->resultRelInfo[i];

		for (int kind = 0; kind < NUM_MERGE_MATCH_KINDS; kind++)
		{
			foreach_ptr(MergeActionState, action, target->ri_MergeActions[kind])
			{
				if (action->mas_action->commandType == CMD_INSERT)
					watch_projection(needed, action->mas_proj, NULL);
				else if (action->mas_action->commandType == CMD_UPDATE &&
						 !has_trigger(target))
					watch_projection(needed, action->mas_proj,
									 key_of_relation(needed, target->ri_RelationDesc));
			}
		}
	}
}

/*
 * Rows that the node's projections form are looked at from now on.
 */
void
la_needed_projection_watch(LaNeeded *needed)
{
	switch (needed->node->operation)
	{
		case CMD_INSERT:
			watch_insert(needed);
			return;
		case CMD_UPDATE:
			watch_update(needed);
			break;
		default:
			watch_merge(needed);
			break;
	}
	qsort(needed->watched, needed->count, sizeof(LaWatched), compare_watched);
}

/*
 * Are the rows of a plan with these columns of the table's row type?  Core checks it before the
 * first row, and has error messages for it.  A dropped column, and a generated one, gets a null of
 * whatever type.
 */
bool
la_needed_is_row(const List *columns, Relation table)
{
	TupleDesc	row = RelationGetDescr(table);

	if (list_length(columns) != row->natts)
		return false;
	foreach_node(TargetEntry, entry, columns)
	{
		Form_pg_attribute column = TupleDescAttr(row, foreach_current_index(entry));

		if (entry->resjunk)
			return false;
		if (column->attisdropped || column->attgenerated != '\0')
		{
			if (!IsA(entry->expr, Const) || !((Const *) entry->expr)->constisnull)
				return false;
		}
		else if (exprType((Node *) entry->expr) != column->atttypid)
			return false;
	}
	return true;
}
