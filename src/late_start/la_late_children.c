/*-------------------------------------------------------------------------
 *
 * la_late_children.c
 *	  starts the children of an Append or MergeAppend when they are wanted
 *
 * Core's node sees the children that were started, and no others: it executes,
 * rescans, shuts down and ends them, and so does whoever walks the tree.  Before a
 * scan begins, and after each rescan that may prune differently, we ask core
 * which are wanted (ExecFindMatchingSubPlans), by their number in the plan, start
 * those that are missing, and give the node the answer, by their place among
 * those that were started.  All else is done by core's function.
 *
 * Those that were started are kept in the order of the plan, which is that of the rows of an
 * Append, and decides between equal keys of a MergeAppend.
 *
 * A child starts as it would have at the start of the query: as the same user, with
 * the same resource owner.  A utility command that runs meanwhile, in a function that
 * the query calls, must find all children's tables and indexes in use, and
 * must not change what a start depends on: before it, all are started.  A query that was
 * aborted may keep its memory, but not its resource owner: then it misses no children any more.
 *
 * Reads AppendState and MergeAppendState of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/execPartition.h"
#include "executor/executor.h"
#include "lib/binaryheap.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "attach/la_attach.h"
#include "attach/la_core_exec.h"
#include "late_start/la_late_children.h"
#include "statistics/la_stats.h"

/*
 * A node whose children start late.
 */
typedef struct LateNode
{
	dlist_node	link;			/* in unfinished */
	PlanState  *parent;
	List	   *plans;			/* of its children */
	int			eflags;			/* with which they are started */
	Oid			user;			/* as whom */
	int			security;
	ResourceOwner owner;
	Bitmapset  *started;		/* numbers in plans */
	int			count;			/* of them */
	Bitmapset  *wanted;			/* those that pruning left */
	bool		settled;		/* has the start of the query ended? */
	PlanState **states;			/* by number in plans, of those started */
	MemoryContextCallback on_reset;

	/* What core sees as the node's children. */
	PlanState  *seen[FLEXIBLE_ARRAY_MEMBER];
} LateNode;

/* Of all queries that run, those that miss children. */
static dlist_head unfinished = DLIST_STATIC_INIT(unfinished);

/* Core's functions for the two kinds of nodes. */
static ExecProcNodeMtd core_append = NULL;
static ExecProcNodeMtd core_merge = NULL;

/*
 * Memory context callback: the query is over.  Must not throw.
 */
static void
forget_node(void *arg)
{
	LateNode   *late = (LateNode *) arg;

	if (!dlist_node_is_detached(&late->link))
		dlist_delete_thoroughly(&late->link);
}

/*
 * ResourceReleaseCallback: relations, locks and kept plans of a resource owner
 * are about to go; core has it as the current one.  Its queries are over.
 * Must not throw.
 */
static void
forget_of_owner(ResourceReleasePhase phase, bool is_commit, bool is_top_level,
				void *arg)
{
	dlist_mutable_iter iter;

	if (phase != RESOURCE_RELEASE_BEFORE_LOCKS)
		return;
	dlist_foreach_modify(iter, &unfinished)
	{
		LateNode   *late = dlist_container(LateNode, link, iter.cur);

		if (late->owner == CurrentResourceOwner)
			dlist_delete_thoroughly(&late->link);
	}
}

/*
 * Core sees this many children.
 */
static void
show_children(LateNode *late, int count)
{
	late->count = count;
	if (IsA(late->parent, AppendState))
		castNode(AppendState, late->parent)->as_nplans = count;
	else
		castNode(MergeAppendState, late->parent)->ms_nplans = count;
	if (count == list_length(late->plans))
		dlist_delete_thoroughly(&late->link);
}

/*
 * Makes what is known of a node, and shows the first child to core.
 */
static LateNode *
make_node(PlanState *parent, PlanState *first, List *plans, int eflags)
{
	static bool registered = false;
	int			count = list_length(plans);
	MemoryContext old = MemoryContextSwitchTo(parent->state->es_query_cxt);
	LateNode   *late = palloc(offsetof(LateNode, seen) +
							  count * sizeof(PlanState *));

	if (!registered)
		RegisterResourceReleaseCallback(forget_of_owner, NULL);
	registered = true;
	memset(late, 0, offsetof(LateNode, seen));
	late->parent = parent;
	late->plans = plans;
	late->eflags = eflags;
	GetUserIdAndSecContext(&late->user, &late->security);
	late->owner = CurrentResourceOwner;
	late->states = palloc(count * sizeof(PlanState *));
	late->states[0] = late->seen[0] = first;
	late->started = bms_make_singleton(0);
	if (IsA(parent, AppendState))
		castNode(AppendState, parent)->appendplans = late->seen;
	else
	{
		MergeAppendState *merge = castNode(MergeAppendState, parent);
		binaryheap *heap = merge->ms_heap;

		merge->mergeplans = late->seen;

		/*
		 * It keeps a slot and an entry of its heap for each child, by place;
		 * it has them for the two children with which it was started. Mirrors
		 * ExecInitMergeAppend() in nodeMergeAppend.c.
		 */
		merge->ms_heap = binaryheap_allocate(count, heap->bh_compare, heap->bh_arg);
		binaryheap_free(heap);
		merge->ms_slots = palloc0(count * sizeof(TupleTableSlot *));
	}
	dlist_push_tail(&unfinished, &late->link);
	show_children(late, 1);
	late->on_reset.func = forget_node;
	late->on_reset.arg = late;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &late->on_reset);
	MemoryContextSwitchTo(old);
	return late;
}

static LateNode *
node_of(PlanState **seen)
{
	return (LateNode *) ((char *) seen - offsetof(LateNode, seen));
}

/*
 * Starts children, by their numbers, where and as whom the query was started.  After
 * an error the transaction puts these back.
 */
static void
start_children(LateNode *late, const Bitmapset *numbers)
{
	MemoryContext context = MemoryContextSwitchTo(late->parent->state->es_query_cxt);
	ResourceOwner owner = CurrentResourceOwner;
	Oid			user;
	int			security;
	int			number = -1;

	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(late->user, late->security);
	CurrentResourceOwner = late->owner;
	while ((number = bms_next_member(numbers, number)) >= 0)
	{
		PlanState  *child;

		if (bms_is_member(number, late->started))
			continue;
		child = ExecInitNode(list_nth(late->plans, number),
							 late->parent->state, late->eflags);
		late->started = bms_add_member(late->started, number);
		late->states[number] = child;

		/*
		 * Core sees it behind all others, because it may be in the middle of
		 * them.
		 */
		late->seen[late->count] = child;
		show_children(late, late->count + 1);
		if (late->settled)
			la_attach_child(child);
	}
	CurrentResourceOwner = owner;
	SetUserIdAndSecContext(user, security);
	MemoryContextSwitchTo(context);
}

/*
 * Asks core which children are wanted now, and starts them.  The functions in what is
 * compared with the bounds of partitions run here; one may execute a utility
 * command, which starts all.
 */
static void
find_wanted(LateNode *late, PartitionPruneState *pruning)
{
	MemoryContext old = MemoryContextSwitchTo(late->parent->state->es_query_cxt);
	Bitmapset  *wanted = ExecFindMatchingSubPlans(pruning, false, NULL);

	MemoryContextSwitchTo(old);
	bms_free(late->wanted);
	late->wanted = wanted;
	start_children(late, wanted);
}

/*
 * The wanted children by the places at which core sees them, where they are put in order first: no
 * scan is under way.
 */
static Bitmapset *
places_of_wanted(LateNode *late)
{
	MemoryContext old = MemoryContextSwitchTo(late->parent->state->es_query_cxt);
	Bitmapset  *places = NULL;
	int			number = -1;
	int			place = 0;

	while ((number = bms_next_member(late->started, number)) >= 0)
	{
		late->seen[place] = late->states[number];
		if (bms_is_member(number, late->wanted))
			places = bms_add_member(places, place);
		place++;
	}
	MemoryContextSwitchTo(old);
	return places;
}

/*
 * ExecProcNode of an Append.  Mirrors choose_next_subplan_locally() in nodeAppend.c, which
 * asks for the wanted children when a scan begins that has no answer from the one
 * before.
 */
static TupleTableSlot *
append_exec(PlanState *planstate)
{
	AppendState *append = castNode(AppendState, planstate);

	if (unlikely(!append->as_begun))
	{
		LateNode   *late = node_of(append->appendplans);

		if (!append->as_valid_subplans_identified)
			find_wanted(late, append->as_prune_state);
		bms_free(append->as_valid_subplans);
		append->as_valid_subplans = places_of_wanted(late);
		append->as_valid_subplans_identified = true;
	}
	return core_append(planstate);
}

/*
 * ExecProcNode of a MergeAppend.  Mirrors ExecMergeAppend() in nodeMergeAppend.c,
 * which knows from an empty answer that it has none.
 */
static TupleTableSlot *
merge_exec(PlanState *planstate)
{
	MergeAppendState *merge = castNode(MergeAppendState, planstate);

	if (unlikely(!merge->ms_initialized))
	{
		LateNode   *late = node_of(merge->mergeplans);

		if (merge->ms_valid_subplans == NULL)
			find_wanted(late, merge->ms_prune_state);
		bms_free(merge->ms_valid_subplans);
		merge->ms_valid_subplans = places_of_wanted(late);
		if (merge->ms_valid_subplans == NULL)
			return ExecClearTuple(planstate->ps_ResultTupleSlot);
	}
	return core_merge(planstate);
}

static void
start_all(LateNode *late)
{
	Bitmapset  *all = bms_add_range(NULL, 0, list_length(late->plans) - 1);

	start_children(late, all);
	bms_free(all);
}

/*
 * Takes a node that has been started with its first child only.  All others are started at
 * once when they may not be late, or when another extension has taken the node.
 */
void
la_late_adopt(PlanState *parent, PlanState *first, List *plans, int eflags,
			  bool late)
{
	static const LaCounters one = {.scans = 1};
	bool		is_append = IsA(parent, AppendState);
	LateNode   *node = make_node(parent, first, plans, eflags);

	if (!la_core_exec_learn(parent, is_append ? &core_append : &core_merge) ||
		!late)
	{
		start_all(node);
		return;
	}
	node->settled = true;
	la_core_exec_change(parent, parent->ExecProcNodeReal, is_append ? append_exec : merge_exec);
	la_stats_count(LA_FEATURE_LATE_START, LA_REASON_NONE, false);
	la_stats_add(LA_FEATURE_LATE_START, &one);
}

/*
 * A utility command is about to begin: it finds all children started, as core's are.
 */
void
la_late_before_utility(void)
{
	dlist_mutable_iter iter;

	if (likely(dlist_is_empty(&unfinished)) || !IsTransactionState())
		return;
	dlist_foreach_modify(iter, &unfinished)
		start_all(dlist_container(LateNode, link, iter.cur));
}
