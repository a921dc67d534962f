/*-------------------------------------------------------------------------
 *
 * la_core_exec.h
 *	  core's functions that execute the nodes that we attach to
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_CORE_EXEC_H
#define LA_CORE_EXEC_H

#include "nodes/execnodes.h"

extern bool la_core_exec_learn_new(const PlanState *planstate,
								   ExecProcNodeMtd *known);
extern void la_core_exec_change(PlanState *planstate, ExecProcNodeMtd from, ExecProcNodeMtd to);
extern ExecProcNodeMtd *la_core_exec_of(const PlanState *planstate);

/*
 * Has a node that nobody has executed the function that core gives to its
 * kind?  Then that is *known from now on, NULL until the first such node.
 */
static inline bool
la_core_exec_learn(const PlanState *planstate, ExecProcNodeMtd *known)
{
	return likely(*known == planstate->ExecProcNodeReal) ||
		la_core_exec_learn_new(planstate, known);
}

#endif							/* LA_CORE_EXEC_H */
