/*-------------------------------------------------------------------------
 *
 * other_extension.c
 *	  a library that takes plan nodes as ours does: puts its own function in
 *	  the place of a scan's ExecProcNode, calls the one before and counts calls.
 *	  other_extension.wraps has it put in front of the node only, not in its place;
 *	  other_extension.stays has it put there again after the first call.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "fmgr.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

static ExecutorStart_hook_type next_ExecutorStart = NULL;
static ExecProcNodeMtd taken_from = NULL;
static int	calls = 0;
static bool wraps = false;
static bool stays = false;

static TupleTableSlot *
pass_on(PlanState *planstate)
{
	TupleTableSlot *slot = taken_from(planstate);

	calls++;
	if (stays && planstate->ExecProcNode != pass_on)
	{
		taken_from = planstate->ExecProcNode;
		planstate->ExecProcNode = pass_on;
	}
	return slot;
}

static void
take_scan(QueryDesc *queryDesc, int eflags)
{
	PlanState  *planstate;

	if (next_ExecutorStart)
		next_ExecutorStart(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);

	planstate = queryDesc->planstate;
	if (planstate != NULL &&
		(IsA(planstate, IndexScanState) || IsA(planstate, BitmapHeapScanState) ||
		 IsA(planstate, SeqScanState) || IsA(planstate, NestLoopState)))
	{
		taken_from = wraps ? planstate->ExecProcNode : planstate->ExecProcNodeReal;
		if (wraps)
			planstate->ExecProcNode = pass_on;
		else
			ExecSetExecProcNode(planstate, pass_on);
	}
}

void
_PG_init(void)
{
	next_ExecutorStart = ExecutorStart_hook;
	ExecutorStart_hook = take_scan;
	DefineCustomIntVariable("other_extension.calls",
							"Shows how often its function was called.", NULL,
							&calls, 0, 0, INT_MAX, PGC_USERSET, 0,
							NULL, NULL, NULL);
	DefineCustomBoolVariable("other_extension.wraps",
							 "Puts its function in front of a node's.", NULL,
							 &wraps, false, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("other_extension.stays",
							 "Puts it there again after the first call.", NULL,
							 &stays, false, PGC_USERSET, 0, NULL, NULL, NULL);
}
