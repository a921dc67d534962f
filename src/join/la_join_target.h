/*-------------------------------------------------------------------------
 *
 * la_join_target.h
 *	  an index of a join's inner side that is looked up by values of the outer row
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_TARGET_H
#define LA_JOIN_TARGET_H

#include "access/nbtree.h"
#include "access/skey.h"
#include "nodes/execnodes.h"

#include "attach/la_registry.h"
#include "join/la_join_outer.h"
#include "join/la_join_peek.h"

/* Most indexes of one join: arbitrary, few have more than one. */
#define LA_JOIN_TARGETS 4

typedef struct LaJoinAppend LaJoinAppend;

/* Most columns of an index by which a row is looked up: arbitrary, few have more. */
#define LA_JOIN_KEYS 8

/*
 * A value that is known before the inner side is begun: a column of the outer
 * row, a parameter that is set above the join, or the value that the scan has
 * for the whole statement.
 */
typedef struct LaJoinValue
{
	ScanKey		key;			/* of the scan */
	ScanKey		search;			/* which gets it */
	AttrNumber	column;			/* of the outer row, or 0 */
	const ParamExecData *parameter; /* or NULL */
	bool		varlena;
} LaJoinValue;

/*
 * An index, and what it is looked up by.  Or one such target for
 * each partition, of which a row wants one (la_join_append.c): then of the rest only the table
 * of one of them is set.
 */
typedef struct LaJoinTarget
{
	LaJoinAppend *append;		/* or NULL */
	Relation	index;
	Relation	table;
	bool		index_only;
	bool		limited;		/* may a Limit end the scan after few rows? */
	LaNode	   *node;			/* of the scan, or NULL */
	const uint64 *searches;		/* that the scan has begun, or NULL */
	const bool *ready;			/* have the scan's keys been computed, or NULL */
	int			nvalues;
	LaJoinValue values[LA_JOIN_KEYS + 2];	/* and the two bounds */
	LaJoinSearch search;
} LaJoinTarget;

extern int	la_join_targets_find(const LaJoinOuter *outer, LaJoinTarget *targets);
extern LaJoinTarget *la_join_target_below(const LaJoinOuter *outer,
										  PlanState *planstate);
extern LaJoinTarget *la_join_target_of_row(LaJoinTarget *target,
										   TupleTableSlot *outer);
extern LaJoinAppend *la_join_append_create(const LaJoinOuter *outer,
										   AppendState *append);
extern Relation la_join_append_table(const LaJoinAppend *append);
extern LaJoinTarget *la_join_append_child(LaJoinAppend *append,
										  TupleTableSlot *outer);
extern bool la_join_target_fill(LaJoinTarget *target, TupleTableSlot *outer);

#endif							/* LA_JOIN_TARGET_H */
