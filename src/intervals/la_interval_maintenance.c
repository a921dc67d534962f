/*-------------------------------------------------------------------------
 *
 * la_interval_maintenance.c
 *	  keeps the partitions of a table as its policy says
 *
 * Each partition is created or taken out in a transaction of its own, so locks
 * are held for a moment.  Within it, work is done in a subtransaction and as
 * the table's owner: an error undoes the work and nothing else, is noted in
 * the state, and the next step begins.
 *
 * Whoever maintains a table has an advisory lock on it, so that two at once do
 * nothing twice.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "intervals/la_interval_maintenance.h"
#include "intervals/la_interval_outlook.h"
#include "intervals/la_interval_owner.h"
#include "intervals/la_interval_retire.h"
#include "intervals/la_interval_try.h"
#include "la_sql_argument.h"

/* How long a lock is waited for where the session does not say.  Arbitrary. */
#define LOCK_TIMEOUT "2s"

/*
 * Who maintains a table has an advisory lock of this kind; those of users are
 * of kinds 1 and 2.
 */
#define LOCK_KIND 8

/* How long after a run the next one is due, at least and at most.  Arbitrary. */
#define LEAST_WAIT (USECS_PER_MINUTE)
#define MOST_WAIT (USECS_PER_HOUR)

typedef struct LaIntervalRun LaIntervalRun;
typedef void (*LaIntervalStep) (LaIntervalRun *run,
								const LaIntervalPolicy *policy);

/* The maintenance of one table. */
struct LaIntervalRun
{
	Oid			parent;
	bool		is_alone;		/* no procedure has called it */
	TimestampTz now;			/* when it began */
	MemoryContext context;		/* for the run */
	MemoryContext temporary;	/* for a step */
	LaIntervalStep step;		/* that is taken */
	LaIntervalState *state;
	StringInfoData blocked;
	List	   *old;			/* partitions to be taken out */
	Oid			partition;		/* the one that is, or InvalidOid */
	LaIntervalRetired retired;	/* how far that one is */
	bool		waits;			/* until the table can be locked for that */
	bool		is_done;		/* no step of this kind is left */
};

static void maintain_locked(LaIntervalRun *run, const LOCKTAG *tag);
static void maintain(LaIntervalRun *run);
static void begin_run(LaIntervalRun *run);
static void do_all(LaIntervalRun *run);
static void end_run(LaIntervalRun *run);
static bool do_step(LaIntervalRun *run, LaIntervalStep step);
static void take_step(void *arg);
static void note_error(LaIntervalRun *run, const ErrorData *error);
static void commit(LaIntervalRun *run);
static void create_next(LaIntervalRun *run, const LaIntervalPolicy *policy);
static void retire_all(LaIntervalRun *run);
static bool retire(LaIntervalRun *run);
static void find_pending(LaIntervalRun *run, const LaIntervalPolicy *policy);
static void list_old(LaIntervalRun *run, const LaIntervalPolicy *policy);
static void retire_begin(LaIntervalRun *run, const LaIntervalPolicy *policy);
static void retire_locked(LaIntervalRun *run, const LaIntervalPolicy *policy);
static void retire_end(LaIntervalRun *run, const LaIntervalPolicy *policy);
static void analyze(LaIntervalRun *run, const LaIntervalPolicy *policy);
static void plan_next(LaIntervalRun *run, const LaIntervalPolicy *policy);

/*
 * Maintains a table with a policy, in transactions of its own: outside of any,
 * in a memory context that outlives them, or within that of a procedure that
 * may commit.  Returns false if somebody else does so just now.  What fails is
 * noted in the state; a cancel is thrown.
 */
bool
la_interval_maintain(Oid parent)
{
	MemoryContext caller = CurrentMemoryContext;
	LaIntervalRun run = {.parent = parent,.is_alone = !IsTransactionState()};
	LOCKTAG		tag;
	bool		is_free;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, parent, LOCK_KIND);
	if (run.is_alone)
		StartTransactionCommand();
	/* Memory of the run outlives its transactions. */
	MemoryContextSwitchTo(caller);
	is_free = LockAcquire(&tag, ExclusiveLock, true, true) != LOCKACQUIRE_NOT_AVAIL;
	if (is_free)
		maintain_locked(&run, &tag);
	if (run.is_alone)
		CommitTransactionCommand();
	MemoryContextSwitchTo(caller);
	return is_free;
}

/*
 * Gives the lock up whatever happens.
 */
static void
maintain_locked(LaIntervalRun *run, const LOCKTAG *tag)
{
	run->context = AllocSetContextCreate(CurrentMemoryContext,
										 "pg_lookahead interval maintenance",
										 ALLOCSET_DEFAULT_SIZES);
	run->temporary = AllocSetContextCreate(run->context,
										   "pg_lookahead interval step",
										   ALLOCSET_DEFAULT_SIZES);
	PG_TRY();
	{
		maintain(run);
	}
	PG_FINALLY();
	{
		LockRelease(tag, ExclusiveLock, true);
	}
	PG_END_TRY();
	/* An error that is thrown on names a file and a function in it. */
	MemoryContextSwitchTo(MemoryContextGetParent(run->context));
	MemoryContextDelete(run->context);
}

static void
maintain(LaIntervalRun *run)
{
	MemoryContextSwitchTo(run->context);
	PushActiveSnapshot(GetTransactionSnapshot());
	begin_run(run);
	PopActiveSnapshot();
	commit(run);
	if (run->state == NULL)
		return;
	do_all(run);
	PushActiveSnapshot(GetTransactionSnapshot());
	end_run(run);
	PopActiveSnapshot();
	commit(run);
}

/*
 * Forgets the policy of a table that is no more.
 */
static void
begin_run(LaIntervalRun *run)
{
	(void) la_interval_policy_remove_stale(run->parent);
	if (la_interval_policy_read(run->parent) == NULL)
		return;
	run->now = GetCurrentTimestamp();
	run->state = la_interval_state_read(run->parent);
	initStringInfo(&run->blocked);
}

/*
 * New partitions come first: rows will need them.
 */
static void
do_all(LaIntervalRun *run)
{
	while (do_step(run, create_next) && !run->is_done)
		CHECK_FOR_INTERRUPTS();
	retire_all(run);
	run->partition = InvalidOid;
	do_step(run, analyze);
	do_step(run, plan_next);
}

/*
 * After an error the next attempt is due after a minute, and after each
 * further one twice as long.
 */
static void
end_run(LaIntervalRun *run)
{
	LaIntervalState *state = run->state;
	TimestampTz end = GetCurrentTimestamp();

	state->last_run = end;
	state->blocked = run->blocked.len > 0 ? run->blocked.data : NULL;
	if (state->error == NULL)
		state->attempts = 0;
	else
	{
		ereport(WARNING,
				(errmsg("could not maintain the partitions of \"%s\": %s",
						get_rel_name(run->parent), state->error)));
		state->next_run = end +
			Min(LEAST_WAIT << Min(state->attempts, 10), MOST_WAIT);
		state->attempts++;
	}
	la_interval_state_write(run->parent, state);
}

/*
 * A step in a transaction.  Returns whether it succeeded.
 */
static bool
do_step(LaIntervalRun *run, LaIntervalStep step)
{
	ErrorData  *error;

	MemoryContextReset(run->temporary);
	MemoryContextSwitchTo(run->temporary);
	PushActiveSnapshot(GetTransactionSnapshot());
	run->step = step;
	error = la_interval_try(take_step, run);
	if (error != NULL)
		note_error(run, error);
	PopActiveSnapshot();
	commit(run);
	return error == NULL;
}

/*
 * As the table's owner, by its policy of now; a policy that was removed
 * meanwhile says that there is nothing to do.
 */
static void
take_step(void *arg)
{
	LaIntervalRun *run = arg;
	LaIntervalPolicy *policy = la_interval_policy_read(run->parent);
	LaIntervalOwner before;

	run->is_done = policy == NULL;
	if (policy == NULL)
		return;
	la_interval_owner_begin(&before, run->parent, policy->time_zone);
	if (LockTimeout == 0)
		la_sql_argument_set("lock_timeout", LOCK_TIMEOUT);
	run->step(run, policy);
	la_interval_owner_end(&before);
}

/*
 * The first error counts.  That a partition cannot be taken out is none: it
 * stays until whatever keeps it is gone.
 */
static void
note_error(LaIntervalRun *run, const ErrorData *error)
{
	if (OidIsValid(run->partition))
	{
		const char *name = get_rel_name(run->partition);

		appendStringInfo(&run->blocked, "%s%s: %s",
						 run->blocked.len > 0 ? "\n" : "",
						 name == NULL ? "?" : name, error->message);
	}
	else if (run->state->error == NULL)
	{
		run->state->error = MemoryContextStrdup(run->context, error->message);
		run->state->sqlstate = error->sqlerrcode;
	}
}

/*
 * Ends the transaction, and begins one.
 */
static void
commit(LaIntervalRun *run)
{
	if (run->is_alone)
	{
		CommitTransactionCommand();
		StartTransactionCommand();
	}
	else
		SPI_commit();
	MemoryContextSwitchTo(run->context);
}

static void
create_next(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	run->is_done = !la_interval_create_next(policy, run->now);
}

/*
 * Takes old partitions out, until there is something that keeps all others, too.
 */
static void
retire_all(LaIntervalRun *run)
{
	if (!do_step(run, find_pending))
		return;
	if (OidIsValid(run->partition) && !do_step(run, retire_end))
		return;
	do_step(run, list_old);
	foreach_oid(partition, run->old)
	{
		CHECK_FOR_INTERRUPTS();
		run->partition = partition;
		if (!retire(run))
			return;
	}
}

/*
 * Takes a partition out, if it still is old.  Returns whether others can be.  Where the
 * table itself could not be locked no other one is tried: whoever wants to use it has
 * waited long enough.
 */
static bool
retire(LaIntervalRun *run)
{
	if (!do_step(run, retire_begin))
		return true;
	switch (run->retired)
	{
		case LA_INTERVAL_KEPT:
			return true;
		case LA_INTERVAL_MARKED:
			/* If that has to wait, the next one finds the table busy. */
			do_step(run, retire_end);
			return true;
		case LA_INTERVAL_TO_BE_LOCKED:
			return do_step(run, retire_locked) || !run->waits;
		case LA_INTERVAL_BUSY:
			break;
	}
	return false;
}

/*
 * What was begun, by whomever, comes first.
 */
static void
find_pending(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	Oid			pending = la_interval_retire_pending(policy->parent);

	run->partition = pending;
	if (!OidIsValid(pending))
		run->state->detaching = InvalidOid;
	else if (pending != run->state->detaching &&
			 !la_interval_retire_is_old(policy, pending, run->now))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("somebody else has begun to detach it (if that was interrupted: DETACH PARTITION ... FINALIZE)")));
}

static void
list_old(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	List	   *old = la_interval_retire_list(policy, run->now);

	MemoryContextSwitchTo(run->context);
	run->old = list_copy(old);
}

static void
retire_begin(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	run->retired = la_interval_retire_begin(policy, run->partition, run->now);
	if (run->retired != LA_INTERVAL_MARKED)
		return;
	run->state->detaching = run->partition;
	la_interval_state_write(run->parent, run->state);
}

static void
retire_locked(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	run->waits = false;
	la_interval_retire_check_free(run->partition);
	run->waits = true;
	la_interval_retire_lock(policy->parent, run->partition);
	run->waits = false;
	retire_end(run, policy);
}

static void
retire_end(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	ErrorData  *error = la_interval_retire_end(policy, run->partition,
											   run->now);

	run->state->detaching = InvalidOid;
	if (error == NULL)
		return;
	MemoryContextSwitchTo(run->context);
	error->message = psprintf("detached, but not dropped: %s", error->message);
	note_error(run, error);
}

/*
 * Statistics of the table as a whole, which nobody else makes: autovacuum
 * looks after partitions only.
 */
static void
analyze(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	LaIntervalState *state = run->state;
	TimestampTz due;

	if (policy->analyze_every == NULL)
		return;
	due = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval,
												  TimestampTzGetDatum(state->last_analyze),
												  IntervalPGetDatum(policy->analyze_every)));
	if (state->last_analyze != 0 && due > run->now)
		return;
	la_interval_owner_execute(psprintf("ANALYZE ONLY %s",
									   la_interval_owner_name(policy->parent)));
	state->last_analyze = run->now;
}

/*
 * Of times the next range begins at a known moment; of numbers nobody knows.
 */
static void
plan_next(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	TimestampTz next = run->now + LEAST_WAIT;
	Relation	parent = la_interval_grid_open(policy->parent);
	LaIntervalGrid *grid = la_interval_grid_make(policy, parent);

	table_close(parent, AccessShareLock);
	if (la_interval_grid_is_time(grid->key_type))
	{
		char	   *text = la_partition_series_at_moment(grid->key_type, run->now);
		LaIntervalBound now = la_interval_grid_bound(grid, text);
		LaIntervalRange range = la_interval_grid_find(grid, &now);

		next = Max(next, la_partition_series_moment(grid->key_type,
													range.upper.text));
		next = Min(next, run->now + MOST_WAIT);
	}
	run->state->next_run = next;
}
