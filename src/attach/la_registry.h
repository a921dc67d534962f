/*-------------------------------------------------------------------------
 *
 * la_registry.h
 *	  running queries, and what is known about their plan nodes
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_REGISTRY_H
#define LA_REGISTRY_H

#include "lib/ilist.h"
#include "nodes/execnodes.h"

#include "la_stats.h"

/*
 * A query between ExecutorStart and the end of its EState.  Lives in the
 * per-query memory context and goes with it, whether the query ends or fails.
 */
typedef struct LaQuery
{
	dlist_node	link;			/* in the list of running queries */
	EState	   *estate;
	slist_head	nodes;			/* LaNode */
	slist_head	gathers;		/* of statistics/la_worker_counters.c */
	bool		is_slice;		/* a worker's, for a leader to count */
	bool		listening;		/* do workers hand counters to us? */
	bool		workers_uncounted;	/* did some not, although they ran? */
	bool		partial_fetch;	/* rows are asked for a few at a time */
	Size		ring_bytes;		/* of all scans that look ahead */
	MemoryContextCallback on_reset;
} LaQuery;

/*
 * A scan node of a query, attached or left to core.
 */
typedef struct LaNode
{
	slist_node	link;			/* in LaQuery.nodes */
	PlanState  *planstate;
	int			plan_node_id;	/* the plan may go before us */
	LaQuery    *query;
	bool		below_gather;	/* may workers execute it? */
	LaFeature	feature;
	bool		classified;		/* has the walker decided about it? */
	LaReason	reason;			/* why it is left to core, if it is */
	const char *mode;			/* what this process does in a table scan, as
								 * EXPLAIN shows it; NULL before its first row */

	/* A Limit that passes every row of this node on, or NULL. */
	LimitState *limit;

	/* Used by la_index_peek.c, if it attached. */
	struct LaIndexPeek *peek;

	/* Used by la_bitmap_scan.c and la_seq_scan.c, likewise. */
	struct LaBitmapScan *bitmap;
	struct LaSeqScan *seq;

	LaScanCounters counters;	/* of this process */
	LaScanCounters worker_counters; /* what its workers handed on */
} LaNode;

extern LaQuery *la_registry_add_query(EState *estate);
extern LaQuery *la_registry_find_query(EState *estate);
extern LaNode *la_registry_add(LaQuery *query, PlanState *planstate,
							   LaFeature feature);
extern LaNode *la_registry_find(PlanState *planstate);
extern uint64 la_registry_rows_wanted(const LaNode *node);
extern LaNode *la_registry_find_id(LaQuery *query, int plan_node_id);

#endif							/* LA_REGISTRY_H */
