/*-------------------------------------------------------------------------
 *
 * other_extension.c
 *	  a library that takes plan nodes as ours does: puts its own function in
 *	  the place of an index scan's ExecProcNode and calls the one before
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "fmgr.h"

PG_MODULE_MAGIC;

static ExecutorStart_hook_type next_ExecutorStart = NULL;
static ExecProcNodeMtd taken_from = NULL;

static TupleTableSlot *
pass_on(PlanState *planstate)
{
	return taken_from(planstate);
}

static void
take_index_scan(QueryDesc *queryDesc, int eflags)
{
	PlanState  *planstate;

	if (next_ExecutorStart)
		next_ExecutorStart(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);

	planstate = queryDesc->planstate;
	if (planstate != NULL && IsA(planstate, IndexScanState))
	{
		taken_from = planstate->ExecProcNodeReal;
		ExecSetExecProcNode(planstate, pass_on);
	}
}

void
_PG_init(void)
{
	next_ExecutorStart = ExecutorStart_hook;
	ExecutorStart_hook = take_index_scan;
}
