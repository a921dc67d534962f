/*-------------------------------------------------------------------------
 *
 * la_index_peek.c
 *	  advice for index scans that are executed by core
 *
 * Some scans cannot have their index entries taken away ahead of time: the
 * inner side of a merge join goes back to a mark, a scrollable cursor turns
 * round, an index-only scan takes its rows from the index.  But a btree scan
 * copies all matching entries of a leaf page when it comes to it.  So core
 * executes the node, and before each row we only look at the entries on the
 * same leaf that come next, and advise the kernel to read their table pages:
 * in an index-only scan, those that are not all-visible.
 *
 * That changes nothing but when pages are read.  It works with advice only,
 * and begins anew with every leaf.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/visibilitymap.h"
#include "catalog/pg_am_d.h"
#include "executor/executor.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "index_scan/la_btree_kill.h"
#include "index_scan/la_index_fetch.h"
#include "index_scan/la_index_next.h"
#include "index_scan/la_index_peek.h"
#include "la_guc.h"
#include "prefetch/la_advice.h"
#include "prefetch/la_transport.h"

/* What is kept for an attached node. */
typedef struct LaIndexPeek
{
	ExecProcNodeMtd core;		/* executes the node */
	LaAdvice   *advice;			/* NULL until there is a leaf to look at */
	LaLeafWindow window;		/* as of the last look */
	int			next;			/* position to be looked at next */
	BlockNumber last_block;
} LaIndexPeek;

static TupleTableSlot *peek_exec(PlanState *planstate);
static IndexScanDesc scan_of(PlanState *planstate, ScanDirection *direction);
static void peek(LaNode *node, IndexScanDesc scan, ScanDirection direction);
static void begin_leaf(LaNode *node, const LaLeafWindow *window);
static void look_ahead(LaNode *node, IndexScanDesc scan,
					   ScanDirection direction);

/*
 * Can a scan that has to be left to core for this reason have advice?
 */
bool
la_index_peek_possible(PlanState *planstate, LaReason reason)
{
	Relation	table = ((ScanState *) planstate)->ss_currentRelation;

	if (reason != LA_REASON_INDEX_ONLY && reason != LA_REASON_SCROLL &&
		reason != LA_REASON_MARK_RESTORE)
		return false;
	return la_transport_choose() == LA_TRANSPORT_ADVICE &&
		!la_index_fetch_distrusted() &&
		table->rd_tableam == GetHeapamTableAmRoutine() &&
		!RELATION_IS_OTHER_TEMP(table) &&
		la_index_scan_am(planstate) == BTREE_AM_OID;
}

/*
 * Puts our function before core's.
 */
void
la_index_peek_attach(LaNode *node)
{
	LaIndexPeek *state;

	state = MemoryContextAllocZero(node->query->estate->es_query_cxt,
								   sizeof(LaIndexPeek));
	state->core = node->planstate->ExecProcNodeReal;
	node->peek = state;
	ExecSetExecProcNode(node->planstate, peek_exec);
}

/*
 * ExecProcNode of an attached node.
 */
static TupleTableSlot *
peek_exec(PlanState *planstate)
{
	LaNode	   *node = la_registry_find(planstate);
	ScanDirection direction;
	IndexScanDesc scan = scan_of(planstate, &direction);

	if (scan != NULL && scan->opaque != NULL && la_feature_enabled(LA_FEATURE_INDEX_SCAN))
		peek(node, scan, direction);
	return node->peek->core(planstate);
}

/*
 * The scan of a node, or NULL before it begins, and where the next row will
 * come from.
 */
static IndexScanDesc
scan_of(PlanState *planstate, ScanDirection *direction)
{
	ScanDirection plan_direction;
	IndexScanDesc scan;

	if (IsA(planstate, IndexOnlyScanState))
	{
		plan_direction = ((IndexOnlyScan *) planstate->plan)->indexorderdir;
		scan = ((IndexOnlyScanState *) planstate)->ioss_ScanDesc;
	}
	else
	{
		plan_direction = ((IndexScan *) planstate->plan)->indexorderdir;
		scan = ((IndexScanState *) planstate)->iss_ScanDesc;
	}
	*direction = ScanDirectionCombine(planstate->state->es_direction,
									  plan_direction);
	return scan;
}

/*
 * Core has returned an entry and is about to go on: is there anything to look
 * ahead at?
 */
static void
peek(LaNode *node, IndexScanDesc scan, ScanDirection direction)
{
	LaIndexPeek *state = node->peek;
	LaLeafWindow window;

	if (!la_btree_window(scan, direction, &window) ||
		window.current + 1 >= window.end)
		return;

	if (state->advice == NULL || window.page != state->window.page ||
		window.lsn != state->window.lsn || window.end != state->window.end ||
		window.current < state->window.current)
	{
		if (!la_btree_layout_as_expected(scan, false))
			return;
		begin_leaf(node, &window);
	}
	else if (window.current == state->window.current)
		return;
	state->window.current = window.current;
	if (la_advice_turn(state->advice, window.current))
		look_ahead(node, scan, direction);
}

/*
 * The scan has come to a leaf, or back to one.
 */
static void
begin_leaf(LaNode *node, const LaLeafWindow *window)
{
	LaIndexPeek *state = node->peek;
	EState	   *estate = node->query->estate;

	if (state->advice == NULL)
	{
		Relation	table = ((ScanState *) node->planstate)->ss_currentRelation;

		state->advice = la_advice_create(table, estate->es_query_cxt,
										 &node->counters);
		node->counters.scans++;
		la_advice_start(state->advice,
						la_transport_distance(state->advice->relation,
											  node->query->partial_fetch));
	}
	else
		la_advice_resume(state->advice);
	state->window = *window;
	state->next = window->current + 1;
	state->last_block = InvalidBlockNumber;
}

/*
 * Gives advice for the entries that come next on the leaf.  The page of the
 * visibility map is not kept pinned between two rows, since nothing of ours is
 * called when the scan ends.
 */
static void
look_ahead(LaNode *node, IndexScanDesc scan, ScanDirection direction)
{
	LaIndexPeek *state = node->peek;
	bool		index_only = IsA(node->planstate, IndexOnlyScanState);
	uint64		wanted = la_registry_rows_wanted(node);
	Buffer		map_buffer = InvalidBuffer;

	state->next = Max(state->next, state->window.current + 1);
	while (la_advice_wants_more(state->advice))
	{
		int			position = state->next;
		BlockNumber block;

		if (position >= state->window.end ||
			position - state->window.current > wanted)
		{
			la_advice_flush(state->advice);
			break;
		}
		state->next++;
		block = la_btree_block_at(scan, direction, position);
		if (block == state->last_block)
			continue;
		state->last_block = block;
		if (index_only &&
			VM_ALL_VISIBLE(state->advice->relation, block, &map_buffer))
			continue;
		la_advice_add(state->advice, block, position);
		node->counters.prefetched++;
	}
	if (BufferIsValid(map_buffer))
		ReleaseBuffer(map_buffer);
}
