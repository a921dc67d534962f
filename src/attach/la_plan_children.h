/*-------------------------------------------------------------------------
 *
 * la_plan_children.h
 *	  the children of a plan node
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PLAN_CHILDREN_H
#define LA_PLAN_CHILDREN_H

#include "nodes/plannodes.h"

typedef bool (*LaPlanWalker) (Plan *plan, void *context);

extern bool la_plan_children(const Plan *plan, LaPlanWalker walker,
							 void *context);

#endif							/* LA_PLAN_CHILDREN_H */
