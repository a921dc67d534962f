/*-------------------------------------------------------------------------
 *
 * la_worker_table.c
 *	  shared memory through which parallel workers hand counters on
 *
 * Core gives plan nodes a place in the DSM segment of a parallel query, but
 * we have no node of our own, so the counters travel beside it: in one table
 * for the cluster, made when the first parallel query needs it and
 * kept until the server stops.  A worker appends a report of each of its nodes; the
 * leader, whose workers have ended, reads what was appended since before it launched
 * them, and takes what is theirs.  Nothing is ever freed: the newest report goes where
 * the oldest was, which a leader that has not read that one sees by its number.
 *
 * The name of the segment and its first bytes are the build of the library,
 * so a leader and a worker of different builds never see each other's reports.
 *
 * None of this can fail a query: without a table, or when a report is gone,
 * the counters are missing, and EXPLAIN says so.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/dsm_registry.h"
#include "storage/lwlock.h"
#include "utils/memutils.h"

#include "la_compat.h"
#include "la_guc.h"
#include "la_try.h"
#include "statistics/la_worker_table.h"

/*
 * Reports in the table: one for each scan node that a worker has executed and that
 * had to wake, since the leader launched it.  Arbitrary: 500 kB; few in a test build, so
 * that a test can fill it.
 */
#ifdef LA_TEST
#define REPORTS 64
#else
#define REPORTS 3072
#endif

#define TRANCHE_NAME "PgLookaheadWorkers"

typedef struct LaWorkerTable
{
	char		build_id[32];	/* never changes */
	LWLock		lock;			/* protects the rest */
	uint64		count;			/* of all reports since the server started */
	LaWorkerReport reports[REPORTS];	/* by number, modulo REPORTS */
} LaWorkerTable;

StaticAssertDecl(sizeof(LA_BUILD_ID) <= sizeof(((LaWorkerTable *) 0)->build_id),
				 "the build must fit");

static LaWorkerTable *table = NULL;

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
 * Callback of GetNamedDSMSegment, in the process that makes the segment.
 */
static void
init_table(LA_SEGMENT_INIT_PARAMETERS)
{
	LaWorkerTable *made = (LaWorkerTable *) ptr;

	fail_if_tested();
	strlcpy(made->build_id, LA_BUILD_ID, sizeof(made->build_id));
	LWLockInitialize(&made->lock, la_compat_new_tranche(TRANCHE_NAME));
	made->count = 0;
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
									 sizeof(LaWorkerTable), init_table, &found);
	fail_if_tested();
	if (strcmp(mapped->build_id, LA_BUILD_ID) != 0)
		elog(ERROR, "pg_lookahead found the table of another build");
	la_compat_name_tranche(mapped->lock.tranche, TRANCHE_NAME);
	*(LaWorkerTable **) arg = mapped;
}

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
 * The number that the next report will have.  False in a process whose table is not attached.  Must
 * not throw.
 */
bool
la_worker_table_next_number(uint64 *number)
{
	if (table == NULL)
		return false;
	LWLockAcquire(&table->lock, LW_SHARED);
	*number = table->count;
	LWLockRelease(&table->lock);
	return true;
}

/*
 * In a worker whose table is attached: its reports will lie together, until
 * la_worker_table_end().  Must not throw, nor must what comes between.
 */
void
la_worker_table_begin(void)
{
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
}

void
la_worker_table_append(const LaWorkerReport *report)
{
	table->reports[table->count++ % REPORTS] = *report;
}

void
la_worker_table_end(void)
{
	LWLockRelease(&table->lock);
}

/*
 * In a leader whose table is attached: reads the report with this number, or the oldest that
 * there is, and *missed is set.  The number becomes that of the one after it.  False when there is
 * none.  Must not throw.
 */
bool
la_worker_table_read(uint64 *number, LaWorkerReport *report, bool *missed)
{
	bool		found;

	LWLockAcquire(&table->lock, LW_SHARED);
	if (table->count - *number > REPORTS)
	{
		*number = table->count - REPORTS;
		*missed = true;
	}
	found = *number < table->count;
	if (found)
		*report = table->reports[(*number)++ % REPORTS];
	LWLockRelease(&table->lock);
	return found;
}
