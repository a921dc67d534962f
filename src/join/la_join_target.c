/*-------------------------------------------------------------------------
 *
 * la_join_target.c
 *	  an index that is looked up by values of the outer row
 *
 * Targets are index scans, index-only scans and bitmap index scans of btrees,
 * wherever they are below the inner side of a loop, or below the root of a
 * plan that an expression calls (below Memoize, an aggregate, another join),
 * but not below a Result that may want none for a row, nor below a BitmapAnd,
 * of which few of each side's pages are read; below an Append that of the one
 * partition that a row wants (la_join_append.c).  A key counts if it is a
 * parameter that the outer node itself sets, or one that is the same for all
 * outer rows.  Its comparison function must be the server's own, and of a
 * plain type: it will be called for rows whose turn may never come, and those
 * do not throw.
 *
 * Reads AppendState, IndexScanState, IndexOnlyScanState, BitmapIndexScanState,
 * BitmapOrState, SubPlanState and SubqueryScanState of execnodes.h, and
 * BTScanInsertData of nbtree.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/transam.h"
#include "catalog/pg_am_d.h"
#include "executor/executor.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "join/la_join_end.h"
#include "join/la_join_target.h"
#include "la_compat.h"
#include "la_plain.h"

/* Keys that compare a column with anything but one value. */
#define OTHER_KINDS \
	(SK_SEARCHARRAY | SK_ROW_HEADER | SK_ROW_MEMBER | SK_SEARCHNULL | SK_SEARCHNOTNULL)

/* The keys of one scan node. */
typedef struct ScanKeys
{
	ScanKey		keys;
	int			nkeys;
	IndexRuntimeKeyInfo *computed;
	int			ncomputed;
	const bool *ready;
	const uint64 *searches;
} ScanKeys;

typedef struct TargetSearch
{
	const LaJoinOuter *outer;
	Relation	table;			/* of the bitmap heap scan above */
	LaNode	   *bitmap;			/* that scan, if it reads no pages but an
								 * index's */
	bool		limited;		/* may a node above stop after few rows? */
	LaJoinTarget *targets;
	int			ntargets;
	int			most;
} TargetSearch;

static void search_node(PlanState *planstate, TargetSearch *search);

/*
 * Looks at a plan that an expression calls.  It is read to its end for one
 * value, or for an array of all.  EXISTS, IN and ALL end where the answer is
 * known (relies on ExecScanSubPlan() in nodeSubplan.c and ExecSetParamPlan()
 * in nodeSubplan.c), and a CTE is read as far as its rows are wanted.
 */
static void
search_plan(const SubPlanState *called, TargetSearch *search)
{
	SubLinkType type = called->subplan->subLinkType;
	bool		above = search->limited;

	search->limited = type == EXISTS_SUBLINK || type == ANY_SUBLINK ||
		type == ALL_SUBLINK || type == CTE_SUBLINK;
	search_node(called->planstate, search);
	search->limited = above;
}

/*
 * Of a node that has one or two children.
 */
static void
search_children(TargetSearch *search, PlanState *planstate)
{
	if (IsA(planstate, ResultState) &&
		((Result *) planstate->plan)->resconstantqual != NULL)
		return;
	if (la_join_stops_early(planstate) && !IsA(planstate, NestLoopState))
		search->limited = true;
	if (IsA(planstate, BitmapHeapScanState))
	{
		search->table = ((ScanState *) planstate)->ss_currentRelation;
		search->bitmap = la_registry_find(planstate);
	}
	search_node(outerPlanState(planstate), search);
	search->limited |= la_join_stops_early(planstate);
	search_node(innerPlanState(planstate), search);
}

/*
 * Are the last entries with the key read first?
 */
static bool
is_backward(const Plan *plan)
{
	return (IsA(plan, IndexScan) &&
			ScanDirectionIsBackward(((const IndexScan *) plan)->indexorderdir)) ||
		(IsA(plan, IndexOnlyScan) &&
		 ScanDirectionIsBackward(((const IndexOnlyScan *) plan)->indexorderdir));
}

/*
 * Pages of temporary tables are in local buffers, of which la_request_is_needed() knows
 * nothing.
 */
static bool
is_suitable(Relation index, Relation table)
{
	return index != NULL && table != NULL &&
		index->rd_rel->relam == BTREE_AM_OID &&
		index->rd_indam->amgettuple == btgettuple &&
		table->rd_tableam == GetHeapamTableAmRoutine() &&
		!RelationUsesLocalBuffers(table);
}

/*
 * Where the value of a key comes from: a column of the outer row, a parameter that is
 * set above the join, or neither, when it is as the scan has it.  False when it is anything else.
 */
static bool
find_value(LaJoinTarget *target, LaJoinValue *value, const TargetSearch *search,
		   const ScanKeys *scan)
{
	const PlanState *node = search->outer->node;
	Expr	   *expression = NULL;
	Param	   *parameter;

	value->column = 0;
	value->parameter = NULL;
	for (int i = 0; i < scan->ncomputed; i++)
	{
		if (scan->computed[i].scan_key == value->key)
			expression = scan->computed[i].key_expr->expr;
	}
	if (expression == NULL)
		return true;			/* a constant */
	while (IsA(expression, RelabelType))
		expression = ((RelabelType *) expression)->arg;
	if (!IsA(expression, Param))
		return false;

	parameter = (Param *) expression;
	if (parameter->paramkind == PARAM_EXTERN)
	{
		target->ready = scan->ready;
		return true;
	}
	if (parameter->paramkind != PARAM_EXEC)
		return false;
	value->column = la_join_outer_column(search->outer, parameter->paramid);
	if (value->column > 0)
		return true;
	value->parameter = &node->state->es_param_exec_vals[parameter->paramid];
	return bms_is_member(parameter->paramid, node->plan->extParam);
}

/*
 * Sets how a column is compared.  Mirrors a part of _bt_first() in nbtsearch.c.  False
 * when the function might throw.
 */
static bool
set_comparison(LaJoinTarget *target, LaJoinValue *value)
{
	Relation	index = target->index;
	ScanKey		key = value->key;
	int			i = key->sk_attno - 1;
	Oid			type = index->rd_opcintype[i];
	ScanKey		made = &target->search.key->scankeys[i];
	RegProcedure function = made->sk_func.fn_oid;
	int			flags = made->sk_flags & ~SK_ISNULL;

	if (key->sk_subtype != type && OidIsValid(key->sk_subtype))
		function = get_opfamily_proc(index->rd_opfamily[i], type,
									 key->sk_subtype, BTORDER_PROC);
	if (!RegProcedureIsValid(function) || function >= FirstUnpinnedObjectId ||
		!la_plain_comparison(type))
		return false;
	ScanKeyEntryInitialize(value->search, flags, i + 1, InvalidStrategy,
						   key->sk_subtype, key->sk_collation, function,
						   (Datum) 0);
	value->varlena = get_typlen(OidIsValid(key->sk_subtype) ?
								key->sk_subtype : type) == -1;
	return true;
}

/*
 * Adds the value of a key of the scan, which the look has in "to".  False when
 * nothing is known about it.
 */
static bool
add_value(LaJoinTarget *target, const TargetSearch *search, const ScanKeys *scan,
		  ScanKey key, ScanKey to)
{
	LaJoinValue *value = &target->values[target->nvalues];

	value->key = key;
	value->search = to;
	if (!find_value(target, value, search, scan) ||
		!set_comparison(target, value))
		return false;
	target->nvalues++;
	return true;
}

/*
 * Adds the next column of the index.  False when it is not compared by =, or
 * with something that is not known.
 */
static bool
add_equality(LaJoinTarget *target, const TargetSearch *search, const ScanKeys *scan)
{
	for (int i = 0; i < scan->nkeys; i++)
	{
		ScanKey		key = &scan->keys[i];

		if (key->sk_attno == target->nvalues + 1 &&
			key->sk_strategy == BTEqualStrategyNumber &&
			(key->sk_flags & OTHER_KINDS) == 0)
			return add_value(target, search, scan, key,
							 &target->search.key->scankeys[target->nvalues]);
	}
	return false;
}

/*
 * Lets the entries end, or begin, where those of NULLs in this column do.
 * Mirrors a part of _bt_first() in nbtsearch.c.
 */
static void
leave_nulls_out(LaJoinTarget *target, AttrNumber column)
{
	int			options = target->index->rd_indoption[column - 1];
	bool		is_start = ((options & INDOPTION_NULLS_FIRST) != 0) != target->search.backward;
	LaJoinBound *bound = is_start ? &target->search.start : &target->search.end;

	if (bound->is_there)
		return;
	bound->is_there = true;
	bound->is_strict = true;
	bound->key = target->search.key->scankeys[column - 1];	/* of a NULL, as
															 * _bt_mkscankey() has
															 * made it */
}

static bool
is_used(const LaJoinTarget *target, ScanKey key)
{
	for (int i = 0; i < target->nvalues; i++)
	{
		if (target->values[i].key == key)
			return true;
	}
	return false;
}

/*
 * Adds how far the entries go.  False when other keys leave some of them out:
 * their pages would be asked for, and not read.  Where few are read, it does
 * not matter how far they would go.  NULLs are read only where the column has
 * no condition at all.
 */
static bool
add_bounds(LaJoinTarget *target, const TargetSearch *search, const ScanKeys *scan)
{
	bool		has_no_nulls = false;

	for (int i = 0; i < scan->nkeys; i++)
	{
		ScanKey		key = &scan->keys[i];
		bool		is_less = key->sk_strategy < BTEqualStrategyNumber;
		bool		is_start;
		LaJoinBound *bound;

		if (is_used(target, key))
			continue;
		if ((key->sk_flags & SK_SEARCHNOTNULL) != 0)
		{
			if (key->sk_attno > target->search.nkeys + 1)
				return false;
			has_no_nulls |= key->sk_attno == target->search.nkeys + 1;
			continue;
		}
		if (key->sk_attno != target->search.nkeys + 1 ||
			key->sk_strategy == BTEqualStrategyNumber ||
			(key->sk_flags & OTHER_KINDS) != 0)
			return false;
		is_start = is_less == target->search.backward;
		if ((target->index->rd_indoption[key->sk_attno - 1] & INDOPTION_DESC) != 0)
			is_start = !is_start;
		bound = is_start ? &target->search.start : &target->search.end;
		if (bound->is_there)
			return false;
		bound->is_there = add_value(target, search, scan, key, &bound->key);
		bound->is_strict = key->sk_strategy == BTLessStrategyNumber ||
			key->sk_strategy == BTGreaterStrategyNumber;
		if (!bound->is_there && (is_start || !target->limited))
			return false;
		has_no_nulls = true;
	}
	if (has_no_nulls)
		leave_nulls_out(target, target->search.nkeys + 1);
	return true;
}

/*
 * Adds the index of a scan, if the outer row says where in it to look.
 */
static void
search_scan(TargetSearch *search, PlanState *planstate, Relation index,
			Relation table, const ScanKeys *scan)
{
	LaJoinTarget *target = &search->targets[search->ntargets];
	bool		by_row = false;

	if (search->ntargets == search->most || !is_suitable(index, table))
		return;
	memset(target, 0, sizeof(LaJoinTarget));
	target->limited = search->limited;
	target->index = index;
	target->table = table;
	target->index_only = IsA(planstate, IndexOnlyScanState);
	target->node = IsA(planstate, BitmapIndexScanState) ?
		search->bitmap : la_registry_find(planstate);
	target->searches = scan->searches;
	target->search.key = _bt_mkscankey(index, NULL);
	target->search.backward = is_backward(planstate->plan);
	while (target->nvalues < Min(IndexRelationGetNumberOfKeyAttributes(index), LA_JOIN_KEYS) &&
		   add_equality(target, search, scan))
		by_row |= target->values[target->nvalues - 1].column > 0;
	target->search.nkeys = target->nvalues;
	if (!by_row || !add_bounds(target, search, scan))
	{
		pfree(target->search.key);
		return;
	}
	target->search.key->backward = target->search.backward;
	target->search.key->anynullkeys = false;
	_bt_metaversion(index, &target->search.key->heapkeyspace,
					&target->search.key->allequalimage);
	search->ntargets++;
}

static void
search_index(TargetSearch *search, IndexScanState *node)
{
	ScanKeys	scan = {
		node->iss_ScanKeys, node->iss_NumScanKeys,
		node->iss_RuntimeKeys, node->iss_NumRuntimeKeys,
		&node->iss_RuntimeKeysReady,
		la_compat_searches(node->iss_Instrument)
	};

	search_scan(search, &node->ss.ps, node->iss_RelationDesc,
				node->ss.ss_currentRelation, &scan);
}

static void
search_index_only(TargetSearch *search, IndexOnlyScanState *node)
{
	ScanKeys	scan = {
		node->ioss_ScanKeys, node->ioss_NumScanKeys,
		node->ioss_RuntimeKeys, node->ioss_NumRuntimeKeys,
		&node->ioss_RuntimeKeysReady,
		la_compat_searches(node->ioss_Instrument)
	};

	search_scan(search, &node->ss.ps, node->ioss_RelationDesc,
				node->ss.ss_currentRelation, &scan);
}

static void
search_bitmap_index(TargetSearch *search, BitmapIndexScanState *node)
{
	ScanKeys	scan = {
		node->biss_ScanKeys, node->biss_NumScanKeys,
		node->biss_RuntimeKeys, node->biss_NumRuntimeKeys,
		&node->biss_RuntimeKeysReady,
		la_compat_searches(node->biss_Instrument)
	};

	search_scan(search, &node->ss.ps, node->biss_RelationDesc, search->table,
				&scan);
}

/*
 * Adds the partitions of an Append, if the outer row says in which of them to look, and one of
 * those that were started has an index for that.
 */
static void
search_append(TargetSearch *search, AppendState *append)
{
	LaJoinTarget *target = &search->targets[search->ntargets];

	if (search->ntargets == search->most)
		return;
	memset(target, 0, sizeof(LaJoinTarget));
	target->append = la_join_append_create(search->outer, append);
	if (target->append == NULL)
		return;
	target->table = la_join_append_table(target->append);
	target->limited = search->limited;
	if (target->table != NULL)
		search->ntargets++;
}

/*
 * Looks at a node and those below it.  Of the plans of its expressions at
 * InitPlans, which are executed once for an outer row (min() and max() are, by
 * an index), and not at those that are executed for rows of the node.  What is
 * noted of a node is for those below it.
 */
static void
search_node(PlanState *planstate, TargetSearch *search)
{
	TargetSearch above = *search;
	ListCell   *lc;

	if (planstate == NULL)
		return;
	foreach(lc, planstate->initPlan)
		search_plan(lfirst_node(SubPlanState, lc), search);
	switch (nodeTag(planstate))
	{
		case T_AppendState:
			search_append(search, castNode(AppendState, planstate));
			break;
		case T_MergeAppendState:
		case T_BitmapAndState:
			break;
		case T_SubqueryScanState:
			search_node(castNode(SubqueryScanState, planstate)->subplan, search);
			break;
		case T_BitmapOrState:
			search->bitmap = NULL;
			for (int i = 0; i < ((BitmapOrState *) planstate)->nplans; i++)
				search_node(((BitmapOrState *) planstate)->bitmapplans[i], search);
			break;
		case T_BitmapIndexScanState:
			search_bitmap_index(search, castNode(BitmapIndexScanState, planstate));
			break;
		case T_IndexScanState:
			search_index(search, castNode(IndexScanState, planstate));
			break;
		case T_IndexOnlyScanState:
			search_index_only(search, castNode(IndexOnlyScanState, planstate));
			break;
		default:
			search_children(search, planstate);
			break;
	}
	search->table = above.table;
	search->bitmap = above.bitmap;
	search->limited = above.limited;
}

/*
 * Finds the targets of a node that runs.  Returns how many there are.
 */
int
la_join_targets_find(const LaJoinOuter *outer, LaJoinTarget *targets)
{
	TargetSearch search = {.outer = outer,.targets = targets,.most = LA_JOIN_TARGETS};
	ListCell   *lc;

	if (IsA(outer->node, NestLoopState))
		search_node(innerPlanState(outer->node), &search);
	else
	{
		foreach(lc, outer->node->subPlan)
		{
			const SubPlanState *called = lfirst_node(SubPlanState, lc);

			if (la_join_calls_per_row(called))
				search_plan(called, &search);
		}
	}
	return search.ntargets;
}

/*
 * The first target below a node of the inner side, or NULL.
 */
LaJoinTarget *
la_join_target_below(const LaJoinOuter *outer, PlanState *planstate)
{
	LaJoinTarget *target = palloc_object(LaJoinTarget);
	TargetSearch search = {.outer = outer,.targets = target,.most = 1};

	search_node(planstate, &search);
	if (search.ntargets == 1 && target->append == NULL)
		return target;
	pfree(target);
	return NULL;
}

/*
 * The index that an outer row is looked up in: this one, or that of a partition.  NULL when none.
 */
LaJoinTarget *
la_join_target_of_row(LaJoinTarget *target, TupleTableSlot *outer)
{
	while (target != NULL && target->append != NULL)
		target = la_join_append_child(target->append, outer);
	return target;
}

/*
 * Sets the values of an outer row for the look into the index.  False when nothing can match,
 * or when a value is stored elsewhere: that would be read twice.
 */
bool
la_join_target_fill(LaJoinTarget *target, TupleTableSlot *outer)
{
	if (target->ready != NULL && !*target->ready)
		return false;
	for (int i = 0; i < target->nvalues; i++)
	{
		const LaJoinValue *known = &target->values[i];
		Datum		value = known->key->sk_argument;
		bool		isnull = (known->key->sk_flags & SK_ISNULL) != 0;

		if (known->column > 0)
			value = slot_getattr(outer, known->column, &isnull);
		else if (known->parameter != NULL)
		{
			/* Of which the scan has the value before, or what is left of it. */
			if (known->parameter->execPlan != NULL)
				return false;
			value = known->parameter->value;
			isnull = known->parameter->isnull;
		}
		if (isnull ||
			(known->varlena && VARATT_IS_EXTERNAL(DatumGetPointer(value))))
			return false;
		known->search->sk_argument = value;
	}
	return true;
}
