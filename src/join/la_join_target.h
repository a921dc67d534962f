/*-------------------------------------------------------------------------
 *
 * la_join_target.h
 *	  an index of a join's inner side that is looked up by values of the outer row
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_TARGET_H
#define LA_JOIN_TARGET_H

#include "access/attnum.h"
#include "access/nbtree.h"
#include "access/skey.h"
#include "nodes/execnodes.h"

/* Most indexes of one join: arbitrary, few have more than one. */
#define LA_JOIN_TARGETS 4

/*
 * The leading columns of the index that are compared by = with a value that is known
 * before the inner side is begun: a column of the outer row, a parameter that is set above the
 * join, or the value that the scan has for the whole statement.
 */
typedef struct LaJoinTarget
{
	Relation	index;
	Relation	table;
	bool		index_only;
	const bool *ready;			/* have the scan's keys been computed? */
	int			nkeys;
	AttrNumber	columns[INDEX_MAX_KEYS];	/* of the outer row, or 0 */
	const ParamExecData *parameters[INDEX_MAX_KEYS];	/* or NULL */
	bool		varlena[INDEX_MAX_KEYS];
	ScanKey		keys[INDEX_MAX_KEYS];	/* of the scan */
	BTScanInsert search;
} LaJoinTarget;

extern int	la_join_targets_find(NestLoopState *join, LaJoinTarget *targets);
extern bool la_join_target_fill(LaJoinTarget *target, TupleTableSlot *outer);

#endif							/* LA_JOIN_TARGET_H */
