/*-------------------------------------------------------------------------
 *
 * la_worker_table.c
 *	  shared memory through which parallel workers hand counters on
 *
 * Core gives plan nodes a place in the DSM segment of a parallel query, but
 * we have no node of our own, so the counters travel beside it: in one table
 * for the cluster, made when the first parallel query needs it and
 * kept until the server stops.  A worker adds the counters of its nodes to the cells of
 * its leader; the leader takes them out when its workers have ended.  A cell is
 * found by its key, in time that does not depend on how many there are: a query
 * over a thousand partitions has a cell for each.
 *
 * The name of the segment and its first bytes are the build of the library,
 * so a leader and a worker of different builds never see each other's cells.
 *
 * Three rules keep cells from being left behind: a worker only writes for a
 * leader that listens, a leader that stops listening frees its cells, and
 * so does a process that becomes a leader where another one was before it.
 * None of this can fail a query: without a table, or without a free cell,
 * the counters are missing, and EXPLAIN says so.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/dsm_registry.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#include "la_compat.h"
#include "la_guc.h"
#include "la_try.h"
#include "statistics/la_worker_table.h"

/*
 * Cells in the table: one for each scan node that the workers of a running
 * parallel query have executed.  Arbitrary: 500 kB; few in a test build, so
 * that a test can fill it.
 */
#ifdef LA_TEST
#define CELLS 32
#else
#define CELLS 4096
#endif

#define NO_CELL (-1)

#define TRANCHE_NAME "PgLookaheadWorkers"

/* Whose counters a cell has. */
typedef struct LaWorkerKey
{
	int32		leader;			/* ProcNumber */
	dsm_handle	context;		/* segment of the parallel context */
	int32		plan_node_id;
} LaWorkerKey;

/* Counters of a plan node, summed over workers that have ended. */
typedef struct LaWorkerCell
{
	int32		next;			/* in its bucket, or in the list of free cells */
	int32		older;			/* both in the list of the leader */
	int32		newer;
	LaWorkerKey key;
	LaCounters	counters;
} LaWorkerCell;

/* What workers left for one leader. */
typedef struct LaLeaderSlot
{
	int32		newest;			/* its list of cells */
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
	int32		buckets[CELLS]; /* first cell of each, by hash of its key */
	LaWorkerCell cells[CELLS];
	LaLeaderSlot leaders[FLEXIBLE_ARRAY_MEMBER];	/* by ProcNumber */
} LaWorkerTable;

StaticAssertDecl(sizeof(LA_BUILD_ID) <= sizeof(((LaWorkerTable *) 0)->build_id),
				 "the build must fit");

static LaWorkerTable *table = NULL;

static void map_table(void *arg);
static void init_table(LA_SEGMENT_INIT_PARAMETERS);
static void fail_if_tested(void);
static int32 *find_link(const LaWorkerKey *key);
static LaWorkerCell *find_or_make_cell(const LaWorkerKey *key);
static void free_cell(int32 *link);

/*
 * Maps the table, makes it if need be.  False when that is impossible.
 *
 * Core's functions throw when memory or DSM slots are used up, and may then hold locks.  A
 * leader has to come here before it enters parallel mode (la_try.c); a worker never uses a
 * command id.
 */
bool
la_worker_table_attach(void)
{
	LaWorkerTable *mapped = NULL;
	ErrorData  *error;

	if (table != NULL)
		return true;

	error = la_try(map_table, &mapped);
	if (error == NULL)
	{
		table = mapped;
		return true;
	}
	if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		ReThrowError(error);
	elog(DEBUG1, "pg_lookahead cannot count in parallel workers: %s",
		 error->message);
	FreeErrorData(error);
	return false;
}

/*
 * Has la_worker_table_attach() been successful in this process?
 */
bool
la_worker_table_attached(void)
{
	return table != NULL;
}

/*
 * Work that is tried: sets a pointer to the table.
 */
static void
map_table(void *arg)
{
	LaWorkerTable *mapped;
	bool		found;

	mapped = la_compat_named_segment("pg_lookahead workers " LA_BUILD_ID,
									 offsetof(LaWorkerTable, leaders) +
									 sizeof(LaLeaderSlot) * MaxBackends,
									 init_table, &found);
	fail_if_tested();
	if (strcmp(mapped->build_id, LA_BUILD_ID) != 0)
		elog(ERROR, "pg_lookahead found the table of another build");
	la_compat_name_tranche(mapped->lock.tranche, TRANCHE_NAME);
	*(LaWorkerTable **) arg = mapped;
}

/*
 * Callback of GetNamedDSMSegment, in the process that makes the segment.
 */
static void
init_table(LA_SEGMENT_INIT_PARAMETERS)
{
	LaWorkerTable *made = (LaWorkerTable *) ptr;

	fail_if_tested();
	strlcpy(made->build_id, LA_BUILD_ID, sizeof(made->build_id));
	made->leader_count = MaxBackends;
	LWLockInitialize(&made->lock, la_compat_new_tranche(TRANCHE_NAME));
	made->first_free = 0;
	for (int i = 0; i < CELLS; i++)
	{
		made->buckets[i] = NO_CELL;
		made->cells[i].next = i + 1 < CELLS ? i + 1 : NO_CELL;
	}
	for (int i = 0; i < made->leader_count; i++)
	{
		made->leaders[i].newest = NO_CELL;
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
	/* Those of the process that had its number before, too. */
	while (slot->newest != NO_CELL)
		free_cell(find_link(&table->cells[slot->newest].key));
	LWLockRelease(&table->lock);
}

/*
 * In a worker whose table is attached: adds the counters of a plan node to
 * those that its leader is going to take.  "context" is the DSM segment of
 * the worker's parallel context.  Must not throw.
 */
void
la_worker_table_give(dsm_handle context, int plan_node_id,
					 const LaCounters *counters)
{
	LaLeaderSlot *slot = &table->leaders[ParallelLeaderProcNumber];
	LaWorkerKey key = {ParallelLeaderProcNumber, context, plan_node_id};
	LaWorkerCell *cell;

	Assert(ParallelLeaderProcNumber < table->leader_count);
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	if (slot->listening)
	{
		cell = find_or_make_cell(&key);
		if (cell != NULL)
			la_counters_add(&cell->counters, counters);
		else
			slot->full = true;
	}
	LWLockRelease(&table->lock);
}

/*
 * In a leader that listens: takes the cell of a plan node of this parallel
 * context.  False when there is none.  Must not throw.
 */
bool
la_worker_table_take(dsm_handle context, int plan_node_id,
					 LaCounters *counters)
{
	LaWorkerKey key = {MyProcNumber, context, plan_node_id};
	bool		found;
	int32	   *link;

	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	link = find_link(&key);
	found = *link != NO_CELL;
	if (found)
	{
		*counters = table->cells[*link].counters;
		free_cell(link);
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
 * The functions below are called with the lock held exclusively.
 */

/*
 * Where it is written which cell has this key: NO_CELL when there is none.
 */
static int32 *
find_link(const LaWorkerKey *key)
{
	uint32		hash = hash_bytes((const unsigned char *) key, sizeof(*key));
	int32	   *link = &table->buckets[hash % CELLS];

	while (*link != NO_CELL &&
		   memcmp(&table->cells[*link].key, key, sizeof(*key)) != 0)
		link = &table->cells[*link].next;
	return link;
}

/*
 * The cell with this key, which may be a new one, or NULL when none is free.
 */
static LaWorkerCell *
find_or_make_cell(const LaWorkerKey *key)
{
	LaLeaderSlot *slot = &table->leaders[key->leader];
	int32	   *link = find_link(key);
	int32		index = *link;
	LaWorkerCell *cell;

	if (index != NO_CELL)
		return &table->cells[index];
	index = table->first_free;
	if (index == NO_CELL)
		return NULL;

	cell = &table->cells[index];
	table->first_free = cell->next;
	*link = index;
	cell->next = NO_CELL;
	cell->older = slot->newest;
	cell->newer = NO_CELL;
	if (slot->newest != NO_CELL)
		table->cells[slot->newest].newer = index;
	slot->newest = index;
	cell->key = *key;
	memset(&cell->counters, 0, sizeof(cell->counters));
	return cell;
}

/*
 * Frees the cell to which a link points.
 */
static void
free_cell(int32 *link)
{
	int32		index = *link;
	LaWorkerCell *cell = &table->cells[index];

	*link = cell->next;
	if (cell->newer != NO_CELL)
		table->cells[cell->newer].older = cell->older;
	else
		table->leaders[cell->key.leader].newest = cell->older;
	if (cell->older != NO_CELL)
		table->cells[cell->older].newer = cell->newer;
	cell->next = table->first_free;
	table->first_free = index;
}
