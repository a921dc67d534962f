/*-------------------------------------------------------------------------
 *
 * la_methods.h
 *	  the table of features: which plan nodes are for each
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_METHODS_H
#define LA_METHODS_H

#include "nodes/execnodes.h"

#include "la_feature.h"
#include "la_reason.h"

/* More than core has kinds of nodes. */
#define LA_NODE_KINDS 1024

/* Kinds of plan nodes that one feature can have: arbitrary. */
#define LA_FEATURE_NODES 4

/*
 * A kind of plan node, and the function that executes those that are attached.
 */
typedef struct LaNodeKind
{
	NodeTag		tag;
	ExecProcNodeMtd exec;
} LaNodeKind;

/*
 * Where a plan node stands in its query.
 */
typedef struct LaPlace
{
	int			eflags;			/* of the query */
	PlanState  *gather;			/* Gather [Merge] above, or NULL */
	PlanState  *marked;			/* node that its parent marks and restores */
	PlanState  *limited;		/* node whose rows all reach a Limit */
	LimitState *limit;			/* that one */
} LaPlace;

/*
 * What becomes of a plan node.
 */
typedef struct LaVerdict
{
	LaReason	reason;			/* why it is left to core, if it is */
	int			way;			/* one of the ways in which its feature
								 * executes such nodes; its own affair */
} LaVerdict;

/*
 * What a feature is, and what it does with plan nodes, if it is for any.  Each has one, at the
 * top of its room; la_module.c lists them by LaFeature.
 */
typedef struct LaFeatureMethods
{
	const LaFeatureInfo *info;

	/*
	 * Plan nodes.  No two features have the same kind, but that one may be
	 * for those whose expressions call plans; there are T_Invalid behind the
	 * last.  A query that starts has each node classified; one that is not
	 * left to core is attached to, which gives it another function.
	 */
	LaNodeKind	nodes[LA_FEATURE_NODES];
	bool		calling;		/* those that call plans; goes before others */
	LaVerdict	(*classify) (PlanState *planstate, const LaPlace *place);

	/*
	 * Which of them the feature is for; NULL when for all.  Others are not
	 * even left to core: nothing is counted or shown.
	 */
	bool		(*concerns) (const PlanState *planstate);
} LaFeatureMethods;

extern const LaFeatureMethods *la_methods[LA_FEATURE_COUNT];
extern uint8 la_methods_by_kind[LA_NODE_KINDS]; /* the feature and one, or 0 */
extern uint8 la_methods_of_calling[LA_NODE_KINDS];	/* the same, of calling */

extern void la_methods_init(const LaFeatureMethods *const *features);
extern bool la_methods_any_node(void);

/*
 * Which feature is a plan node for?  False when for none.  Every node of every
 * query that starts is looked up.
 */
static inline bool
la_methods_feature(const PlanState *planstate, LaFeature *feature)
{
	NodeTag		kind = nodeTag(planstate);

	if (kind >= LA_NODE_KINDS || la_methods_by_kind[kind] == 0)
		return false;
	if (unlikely(planstate->subPlan != NIL) && la_methods_of_calling[kind] != 0)
	{
		*feature = la_methods_of_calling[kind] - 1;
		if (la_methods[*feature]->concerns(planstate))
			return true;
	}
	*feature = la_methods_by_kind[kind] - 1;
	return la_methods[*feature]->concerns == NULL ||
		la_methods[*feature]->concerns(planstate);
}

#endif							/* LA_METHODS_H */
