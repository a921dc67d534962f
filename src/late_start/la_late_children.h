/*-------------------------------------------------------------------------
 *
 * la_late_children.h
 *	  starts the children of an Append or MergeAppend when they are wanted
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_LATE_CHILDREN_H
#define LA_LATE_CHILDREN_H

#include "nodes/execnodes.h"

extern void la_late_adopt(PlanState *parent, PlanState *first, List *plans,
						  int eflags, bool late);
extern void la_late_before_utility(void);

#endif							/* LA_LATE_CHILDREN_H */
