/*-------------------------------------------------------------------------
 *
 * la_core_exec.c
 *	  core's functions that execute the nodes that we attach to
 *
 * Core's ExecProcNode functions are static.  What a node has after
 * ExecInitNode() is core's function for its kind, unless another extension has
 * taken the node: such a function lies outside of the server's binary.  So
 * a function is believed when it lies in the mapping that also has
 * standard_ExecutorStart(); and since a kind of node has one function, or one for
 * each combination of qual and projection, a node with us needs no place of its
 * own to keep it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>
#include <link.h>

#include "executor/executor.h"

#include "attach/la_core_exec.h"
#include "attach/la_methods.h"

/* The server's binary in memory: first address, and the one after the last. */
static uintptr_t server_begin = 0;
static uintptr_t server_end = 0;

/*
 * dl_iterate_phdr callback: notes the segment that has a function which is
 * known to be the server's.  Ends the iteration there.
 */
static int
find_server(struct dl_phdr_info *object, size_t size, void *arg)
{
	uintptr_t	known = (uintptr_t) standard_ExecutorStart;

	for (int i = 0; i < object->dlpi_phnum; i++)
	{
		uintptr_t	begin = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;
		uintptr_t	end = begin + object->dlpi_phdr[i].p_memsz;

		if (object->dlpi_phdr[i].p_type == PT_LOAD &&
			known >= begin && known < end)
		{
			server_begin = begin;
			server_end = end;
			return 1;
		}
	}
	return 0;
}

/*
 * Is this function part of the server's binary?
 */
static bool
owned_by_server(ExecProcNodeMtd function)
{
	if (server_begin == 0)
		dl_iterate_phdr(find_server, NULL);
	return (uintptr_t) function >= server_begin &&
		(uintptr_t) function < server_end;
}

/*
 * la_core_exec_learn() of a node whose function is not the *known one.
 */
bool
la_core_exec_learn_new(const PlanState *planstate, ExecProcNodeMtd *known)
{
	ExecProcNodeMtd function = planstate->ExecProcNodeReal;

	if (*known != NULL || !owned_by_server(function))
		return false;
	*known = function;
	return true;
}

/*
 * Where core's function for such a node is kept.  For a sequential scan there is one for each
 * combination of qual and projection (relies on ExecInitSeqScan() in nodeSeqscan.c).
 */
ExecProcNodeMtd *
la_core_exec_of(const PlanState *planstate)
{
	static ExecProcNodeMtd known[LA_NODE_KINDS];
	static ExecProcNodeMtd seq_scans[4];

	if (IsA(planstate, SeqScanState))
		return &seq_scans[(planstate->qual != NULL ? 1 : 0) +
						  (planstate->ps_ProjInfo != NULL ? 2 : 0)];
	return &known[nodeTag(planstate)];
}

/*
 * Changes a node's function where it is still the one that we know.  Of a node that nobody has
 * executed, core takes it at the first call, and what another extension has put in front stays,
 * where core's own function for this would throw it away.  That may go on calling "from", which
 * it found there, to the end.  Relies on ExecProcNodeFirst() and
 * ExecSetExecProcNode() in execProcnode.c.
 */
void
la_core_exec_change(PlanState *planstate, ExecProcNodeMtd from, ExecProcNodeMtd to)
{
	if (planstate->ExecProcNodeReal == from)
		planstate->ExecProcNodeReal = to;
	if (planstate->ExecProcNode == from)
		planstate->ExecProcNode = to;
}
