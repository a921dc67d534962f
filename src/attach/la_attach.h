/*-------------------------------------------------------------------------
 *
 * la_attach.h
 *	  attaches to the nodes of a plan that is about to run
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_ATTACH_H
#define LA_ATTACH_H

#include "executor/execdesc.h"
#include "nodes/execnodes.h"

#include "attach/la_misses.h"
#include "attach/la_registry.h"

/*
 * A query that ExecutorRun() is executing.  Lies in the frame of our hook, so
 * it costs nothing, and ends with it.
 */
typedef struct LaRun
{
	QueryDesc  *query_desc;
	bool		bounded;		/* is only a number of rows wanted? */
	LaMisses	misses;			/* see la_attach_wake_if_cold() */
	struct LaRun *outer;		/* whose function runs this one */
} LaRun;

extern void la_attach_start(QueryDesc *queryDesc, int eflags, bool in_slice);
extern void la_attach_child(PlanState *planstate);
extern void la_attach_begin_run(LaRun *run, QueryDesc *queryDesc,
								uint64 count);
extern void la_attach_end_run(LaRun *run);
extern LaNode *la_attach_wake(PlanState *planstate, LaFeature feature);
extern LaNode *la_attach_wake_if_cold(PlanState *planstate, LaFeature feature);

#endif							/* LA_ATTACH_H */
