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

#include "la_counters.h"
#include "la_feature.h"
#include "la_reason.h"

/* Memory of all rings of one statement, in bytes: arbitrary. */
#define LA_STATEMENT_BYTES (4 * 1024 * 1024)

/*
 * A query with a node that is awake, or that will be asked about its nodes, until
 * the end of its EState.  Lives in the
 * per-query memory context and goes with it, whether the query ends or fails.
 */
typedef struct LaQuery
{
	EState	   *estate;
	PlanState  *top;			/* of its main plan */
	slist_head	nodes;			/* LaNode */
	slist_head	gathers;		/* of la_worker_counters.c */
	bool		is_slice;		/* a worker's, for a leader to count */
	bool		looked_at;		/* does the leader want to know its end? */
	bool		listening;		/* do workers hand counters to us? */
	uint64		next_report;	/* number of the first that we have not read */
	bool		workers_uncounted;	/* did some not, although they ran? */
	bool		bounded;		/* is only a number of rows wanted now? */
	bool		keeps_rows;		/* may who receives them, behind an error? */
	Size		ring_bytes;		/* of all scans and joins that look ahead */
	struct LaJoinStatement *join_statement; /* or NULL: nobody has asked */
	Bitmapset  *passing;		/* plan_node_id of those known to join columns
								 * only */
	void		(*at_end) (struct LaQuery *query);
	MemoryContextCallback on_reset;
} LaQuery;

/*
 * A plan node that a feature is for, attached or left to core.
 */
typedef struct LaNode
{
	slist_node	link;			/* in LaQuery.nodes */
	PlanState  *planstate;
	int			plan_node_id;	/* the plan may go before us */
	LaQuery    *query;
	bool		below_gather;	/* may workers execute it? */
	LaFeature	feature;
	LaReason	reason;			/* why it is left to core, if it is */
	int			way;			/* of executing it: LaVerdict.way */

	/* A Limit that passes every row of this node on, or NULL. */
	LimitState *limit;

	/* Of a scan: has a join above asked for all that its next rows are on? */
	bool		asked_above;

	/* Of one that wakes late: rows that had pages read before. */
	uint32		misses;

	/* Of a join: a hash join above, on whose table it depends, or NULL. */
	PlanState  *awaited;

	/* What the feature keeps once the node is awake, or NULL. */
	void	   *state;

#ifdef LA_TEST
	uint32		test_rows;		/* returned while asleep */
#endif

	LaCounters	counters;		/* of this process */
	LaCounters	worker_counters;	/* what its workers handed on */
} LaNode;

extern LaQuery *la_registry_add_query(EState *estate,
									  void (*at_end) (LaQuery *query));
extern LaQuery *la_registry_find_query(EState *estate);
extern LaNode *la_registry_add(LaQuery *query, PlanState *planstate,
							   LaFeature feature);
extern LaNode *la_registry_find(PlanState *planstate);
extern uint64 la_registry_rows_wanted(const LaNode *node);

#endif							/* LA_REGISTRY_H */
