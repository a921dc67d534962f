/*-------------------------------------------------------------------------
 *
 * la_late_judge.h
 *	  which nodes of a plan may start their children late
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_LATE_JUDGE_H
#define LA_LATE_JUDGE_H

#include "nodes/plannodes.h"

/*
 * What was found out about a plan.  Lives as long as that does, in its memory.
 */
typedef struct LaLateFinding
{
	const PlannedStmt *statement;
	List	   *parents;		/* Append and MergeAppend nodes */
	bool		external;		/* do their children have parameters of the
								 * statement? */
	MemoryContextCallback on_reset;
} LaLateFinding;

extern const LaLateFinding *la_late_judge(PlannedStmt *statement);
extern List **la_late_children_of(Plan *parent);

#endif							/* LA_LATE_JUDGE_H */
