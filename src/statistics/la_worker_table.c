/*-------------------------------------------------------------------------
 *
 * la_worker_table.c
 *	  shared memory through which parallel workers hand counters on
 *
 * Core gives plan nodes a place in the DSM segment of a parallel query, but
 * we have no node of our own, so the counters travel beside it: in one table
 * for the cluster, made when the first parallel query needs it and kept until
 * the server stops.  A worker adds the counters of its nodes to the cells of
 * its leader; the leader takes them out when its workers have ended.
 *
 * The name of the segment and its first bytes are the build of the library,
 * so a leader and a worker of different builds never see each other's cells.
 *
 * Three rules keep cells from being left behind: a worker only writes for a
 * leader that listens, a leader that stops listening empties its list, and
 * so does a process that becomes a leader where another one was before it.
 * None of this can fail a query: without a table, or without a free cell,
 * the counters are missing, and EXPLAIN says so.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/dsm_registry.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "la_compat.h"
#include "la_guc.h"
#include "statistics/la_worker_table.h"

/*
 * Cells in the table: one for each scan node that the workers of a running
 * parallel query have executed.  Arbitrary: 400 kB; few in a test build, so
 * that a test can fill it.
 */
#ifdef LA_TEST
#define CELLS 32
#else
#define CELLS 4096
#endif

#define NO_CELL (-1)

/* Counters of a plan node, summed over workers that have ended. */
typedef struct LaWorkerCell
{
	int32		next;			/* in the list of the leader, or of free cells */
	dsm_handle	context;		/* segment of the parallel context */
	int32		plan_node_id;
	LaScanCounters counters;
} LaWorkerCell;

/* What workers left for one leader. */
typedef struct LaLeaderSlot
{
	int32		first;			/* its list of cells */
	bool		listening;		/* does it take cells out? */
	bool		full;			/* was there no cell since it listens? */
} LaLeaderSlot;

/* All fields but the first three are protected by the lock. */
typedef struct LaWorkerTable
{
	char		build_id[32];	/* never changes */
	int32		leader_count;	/* never changes */
	LWLock		lock;
	int32		first_free;
	LaWorkerCell cells[CELLS];
	LaLeaderSlot leaders[FLEXIBLE_ARRAY_MEMBER];	/* by ProcNumber */
} LaWorkerTable;

StaticAssertDecl(sizeof(LA_BUILD_ID) <= sizeof(((LaWorkerTable *) 0)->build_id),
				 "the build must fit");

static LaWorkerTable *table = NULL;

static LaWorkerTable *map_table(void);
static void init_table(void *ptr);
static void fail_if_tested(void);
static void empty_list(LaLeaderSlot *slot);
static LaWorkerCell *find_cell(LaLeaderSlot *slot, dsm_handle context,
							   int plan_node_id);

/*
 * Maps the table, makes it if need be.  False when that is impossible.
 *
 * Core's functions throw when memory or DSM slots are used up, and may then
 * hold locks, so they run in a subtransaction of their own.  Its end advances
 * the command counter if the command has used its command id, which is an
 * error in parallel mode (CommandCounterIncrement in xact.c).  A worker never
 * uses one; a leader has to come here before it enters parallel mode.
 */
bool
la_worker_table_attach(void)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	if (table != NULL)
		return true;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		LaWorkerTable *mapped = map_table();

		ReleaseCurrentSubTransaction();
		table = mapped;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
			ReThrowError(error);
		elog(DEBUG1, "pg_lookahead cannot count in parallel workers: %s",
			 error->message);
		FreeErrorData(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return table != NULL;
}

/*
 * Has la_worker_table_attach() been successful in this process?
 */
bool
la_worker_table_attached(void)
{
	return table != NULL;
}

static LaWorkerTable *
map_table(void)
{
	LaWorkerTable *mapped;
	bool		found;

	mapped = GetNamedDSMSegment("pg_lookahead workers " LA_BUILD_ID,
								offsetof(LaWorkerTable, leaders) +
								sizeof(LaLeaderSlot) * MaxBackends,
								init_table, &found);
	fail_if_tested();
	if (strcmp(mapped->build_id, LA_BUILD_ID) != 0)
		elog(ERROR, "pg_lookahead found the table of another build");
	LWLockRegisterTranche(mapped->lock.tranche, "PgLookaheadWorkers");
	return mapped;
}

/*
 * Callback of GetNamedDSMSegment, in the process that makes the segment.
 */
static void
init_table(void *ptr)
{
	LaWorkerTable *made = (LaWorkerTable *) ptr;

	fail_if_tested();
	strlcpy(made->build_id, LA_BUILD_ID, sizeof(made->build_id));
	made->leader_count = MaxBackends;
	LWLockInitialize(&made->lock, LWLockNewTrancheId());
	made->first_free = 0;
	for (int i = 0; i < CELLS; i++)
		made->cells[i].next = i + 1 < CELLS ? i + 1 : NO_CELL;
	for (int i = 0; i < made->leader_count; i++)
	{
		made->leaders[i].first = NO_CELL;
		made->leaders[i].listening = false;
		made->leaders[i].full = false;
	}
}

/*
 * In a test build: fails as if memory was used up, also while core holds the
 * lock under which it makes the segment.
 */
static void
fail_if_tested(void)
{
#ifdef LA_TEST
	if (la_test_fail_worker_table)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("pg_lookahead.test_fail_worker_table is on")));
#endif
}

/*
 * In a leader whose table is attached: workers may, or may no longer, hand
 * counters to it.  Must not throw.
 */
void
la_worker_table_listen(bool listening)
{
	LaLeaderSlot *slot = &table->leaders[MyProcNumber];

	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	slot->listening = listening;
	slot->full = false;
	empty_list(slot);
	LWLockRelease(&table->lock);
}

/*
 * In a worker whose table is attached: adds the counters of a plan node to
 * those that its leader is going to take.  "context" is the DSM segment of
 * the worker's parallel context.  Must not throw.
 */
void
la_worker_table_give(dsm_handle context, int plan_node_id,
					 const LaScanCounters *counters)
{
	LaLeaderSlot *slot = &table->leaders[ParallelLeaderProcNumber];
	LaWorkerCell *cell;

	Assert(ParallelLeaderProcNumber < table->leader_count);
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	if (slot->listening)
	{
		cell = find_cell(slot, context, plan_node_id);
		if (cell != NULL)
			la_scan_counters_add(&cell->counters, counters);
		else
			slot->full = true;
	}
	LWLockRelease(&table->lock);
}

/*
 * In a leader that listens: takes one cell of this parallel context out of
 * its list.  False when there is none.  Must not throw.
 */
bool
la_worker_table_take(dsm_handle context, int *plan_node_id,
					 LaScanCounters *counters)
{
	LaLeaderSlot *slot = &table->leaders[MyProcNumber];
	bool		found = false;
	int32	   *link;

	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	for (link = &slot->first; *link != NO_CELL; link = &table->cells[*link].next)
	{
		int32		index = *link;
		LaWorkerCell *cell = &table->cells[index];

		if (cell->context != context)
			continue;
		*plan_node_id = cell->plan_node_id;
		*counters = cell->counters;
		*link = cell->next;
		cell->next = table->first_free;
		table->first_free = index;
		found = true;
		break;
	}
	LWLockRelease(&table->lock);
	return found;
}

/*
 * In a leader that listens: have workers lost counters for want of a cell?
 */
bool
la_worker_table_full(void)
{
	bool		full;

	LWLockAcquire(&table->lock, LW_SHARED);
	full = table->leaders[MyProcNumber].full;
	LWLockRelease(&table->lock);
	return full;
}

/*
 * Frees all cells of a leader.  The lock is held exclusively.
 */
static void
empty_list(LaLeaderSlot *slot)
{
	while (slot->first != NO_CELL)
	{
		int32		index = slot->first;

		slot->first = table->cells[index].next;
		table->cells[index].next = table->first_free;
		table->first_free = index;
	}
}

/*
 * The cell of a plan node in the list of a leader, which may be a new one,
 * or NULL when none is free.  The lock is held exclusively.
 */
static LaWorkerCell *
find_cell(LaLeaderSlot *slot, dsm_handle context, int plan_node_id)
{
	LaWorkerCell *cell;
	int32		index;

	for (index = slot->first; index != NO_CELL; index = cell->next)
	{
		cell = &table->cells[index];
		if (cell->context == context && cell->plan_node_id == plan_node_id)
			return cell;
	}

	index = table->first_free;
	if (index == NO_CELL)
		return NULL;
	cell = &table->cells[index];
	table->first_free = cell->next;
	cell->next = slot->first;
	cell->context = context;
	cell->plan_node_id = plan_node_id;
	memset(&cell->counters, 0, sizeof(cell->counters));
	slot->first = index;
	return cell;
}
