/*-------------------------------------------------------------------------
 *
 * la_index_peek.c
 *	  advice for index scans that are executed by core
 *
 * Some scans cannot have their index entries taken away ahead of time: the
 * inner side of a merge join goes back to a mark, a scrollable cursor turns
 * round, an index-only scan takes its rows from the index.  But a btree scan
 * copies all matching entries of a leaf page when it comes to it.  So the scan
 * goes through core's functions, and once it is awake we only look, before a
 * row is fetched, at the entries on the same leaf that come next, and advise
 * the kernel to read their table pages: in an index-only scan, those that are
 * not all-visible.
 *
 * That changes nothing but when pages are read.  It works with advice only,
 * and begins anew with every leaf.  Reads IndexOnlyScanState of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "executor/executor.h"

#include "index_scan/la_btree_leaf.h"
#include "index_scan/la_index_peek.h"
#include "la_feature.h"
#include "prefetch/la_advice.h"
#include "prefetch/la_request.h"

/* What is kept for an attached node that is awake. */
struct LaIndexPeek
{
	LaNode	   *node;
	IndexScanDesc scan;
	LaAdvice   *advice;			/* NULL until there is a leaf to look at */
	LaLeafWindow window;		/* as of the last look */
	int			next;			/* position to be looked at next */
	BlockNumber last_block;
};

/*
 * Makes what a node keeps, when it wakes.
 */
LaIndexPeek *
la_index_peek_create(LaNode *node, IndexScanDesc scan)
{
	LaIndexPeek *peek = MemoryContextAllocZero(node->query->estate->es_query_cxt,
											   sizeof(LaIndexPeek));

	peek->node = node;
	peek->scan = scan;
	return peek;
}

/*
 * The scan has come to a leaf, or back to one.
 */
static void
begin_leaf(LaIndexPeek *peek, const LaLeafWindow *window)
{
	LaNode	   *node = peek->node;
	EState	   *estate = node->query->estate;

	if (peek->advice == NULL)
	{
		Relation	table = ((ScanState *) node->planstate)->ss_currentRelation;

		peek->advice = la_advice_create(table, estate->es_query_cxt,
										&node->counters);
		node->counters.scans++;
		la_advice_start(peek->advice,
						la_request_limit(peek->advice->relation));
	}
	else
		la_advice_resume(peek->advice);
	peek->window = *window;
	peek->next = window->current + 1;
	peek->last_block = InvalidBlockNumber;
}

/*
 * Gives advice for the entries that come next on the leaf.
 */
static void
advise_leaf(LaIndexPeek *peek, ScanDirection direction)
{
	LaNode	   *node = peek->node;
	bool		index_only = IsA(node->planstate, IndexOnlyScanState);
	uint64		wanted = la_registry_rows_wanted(node);
	Buffer	   *map_buffer = index_only ?
		&castNode(IndexOnlyScanState, node->planstate)->ioss_VMBuffer : NULL;

	peek->next = Max(peek->next, peek->window.current + 1);
	while (la_advice_wants_more(peek->advice))
	{
		int			position = peek->next;
		BlockNumber block;

		if (position >= peek->window.end ||
			position - peek->window.current > wanted)
		{
			la_advice_flush(peek->advice);
			break;
		}
		peek->next++;
		block = la_btree_leaf_block(peek->scan, direction, position);
		if (block == peek->last_block)
			continue;
		peek->last_block = block;

		/* With the node's own pin on the map, as core looks there. */
		if (index_only &&
			VM_ALL_VISIBLE(peek->advice->relation, block, map_buffer))
			continue;
		la_advice_add(peek->advice, block, position);
		node->counters.prefetched++;
	}
}

/*
 * The row of an entry is about to be fetched, or the scan to go on from it: is
 * there anything to look ahead at?
 */
void
la_index_peek(LaIndexPeek *peek, ScanDirection direction)
{
	IndexScanDesc scan = peek->scan;
	LaLeafWindow window;

	if (peek->node->asked_above || !la_feature_enabled(LA_FEATURE_INDEX_SCAN) ||
		(peek->advice == NULL && !la_btree_leaf_as_expected(scan, false)) ||
		!la_btree_leaf_window(scan, direction, &window) ||
		window.current + 1 >= window.end)
		return;

	if (peek->advice == NULL || window.page != peek->window.page ||
		window.lsn != peek->window.lsn || window.end != peek->window.end ||
		window.current < peek->window.current)
		begin_leaf(peek, &window);
	else if (window.current == peek->window.current)
		return;
	peek->window.current = window.current;
	if (la_advice_turn(peek->advice, window.current))
		advise_leaf(peek, direction);
}
