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

extern bool la_core_exec_learn(const PlanState *planstate,
							   ExecProcNodeMtd *known);
extern ExecProcNodeMtd *la_core_exec_of(const PlanState *planstate);

#endif							/* LA_CORE_EXEC_H */
