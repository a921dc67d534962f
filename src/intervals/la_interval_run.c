/*-------------------------------------------------------------------------
 *
 * la_interval_run.c
 *	  the transactions of one maintenance of a table
 *
 * Each step is a transaction of its own, so locks are held for a moment.
 * Within it, work is done in a subtransaction and as the table's owner: an error undoes the work
 * and nothing else, is kept, and the next step begins.
 *
 * A step that changes something locks the table first.  Then it becomes the owner, reads the
 * policy, which nobody can change until it is done, and then it takes the snapshot with which
 * it looks at data: what was true before a wait may no longer be.  For that, transactions are
 * READ COMMITTED, whatever the session's are.
 *
 * Whoever maintains a table has an advisory lock on it, so that two at once do
 * nothing twice.
 *
 * The table is waited for once: when it could not be locked in time, or something else could
 * not while it was, whoever wants to use it has waited long enough.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "intervals/la_interval_owner.h"
#include "intervals/la_interval_run.h"
#include "la_sql_function.h"

/* How long a lock is waited for where the session does not say.  Arbitrary. */
#define LOCK_TIMEOUT "2s"

/*
 * How many milliseconds something is waited for while the table is locked: another table, rows of
 * it, the policy.  Arbitrary.
 */
#define LATER_TIMEOUT 50

/*
 * The longest deadlock_timeout, in milliseconds, for which it is awaited that an autovacuum gives
 * way.  Arbitrary.
 */
#define MOST_DEADLOCK_TIMEOUT 30000

/* How long after a run the next one is due at least.  Arbitrary. */
#define LEAST_WAIT (USECS_PER_MINUTE)

/* How long after a run that did not get a lock, or leaves a mark, at most.  Arbitrary. */
#define MOST_WAIT_FOR_LOCK (8 * USECS_PER_MINUTE)

/*
 * Until the level of settings that is returned is ended.
 */
static int
limit_waits(void)
{
	int			level = NewGUCNestLevel();

	if (LockTimeout == 0)
		la_sql_argument_set("lock_timeout", LOCK_TIMEOUT);
	return level;
}

/*
 * Begins the run: reads policy and state.  Of a table that is no more the policy is forgotten.
 */
static void
begin_run(void *arg)
{
	LaIntervalRun *run = arg;
	int			level = limit_waits();

	PushActiveSnapshot(GetTransactionSnapshot());
	(void) la_interval_policy_remove_stale(run->parent);
	MemoryContextSwitchTo(run->context);
	if (la_interval_policy_read(run->parent) != NULL)
	{
		run->now = GetCurrentTimestamp();
		run->state = la_interval_state_read(run->parent);
		initStringInfo(&run->blocked);
	}
	PopActiveSnapshot();
	AtEOXact_GUC(false, level);
}

static void
warn_of_error(void *arg)
{
	LaIntervalRun *run = arg;
	const char *name = get_rel_name(run->parent);

	ereport(WARNING,
			(errmsg("could not maintain the partitions of \"%s\": %s",
					name == NULL ? "?" : name,
					run->state != NULL && run->state->error != NULL
					? run->state->error : run->error->message)));
}

/*
 * Ends the transaction, and begins one.  No standby is waited for after a step, which has locked
 * some table: that could be down, or have to wait for the end of its queries to lock the table,
 * too.  Others see what was done before it is on disk and with standbys; a crash in between undoes
 * it as a whole.  The end of a run, which writes the state, waits for all of it.
 */
static void
commit_step(LaIntervalRun *run)
{
	bool		is_step = run->step != NULL;

	if (is_step)
		(void) set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_LOCAL, true, 0, false);
	if (run->is_alone)
	{
		CommitTransactionCommand();
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
	}
	else
		SPI_commit();
	if (is_step)
		XLogFlush(XactLastCommitEnd);
	XactIsoLevel = XACT_READ_COMMITTED;
	MemoryContextSwitchTo(run->context);
}

/*
 * Does a piece of work in a subtransaction, and commits.  run->temporary, which has the error of
 * the one before, is emptied by the next work, but not by the warning about that error.
 *
 * The table counts as one that cannot be locked in time after any error until a step has its lock
 * and its policy's, and after a lock timeout while the step has them.
 */
static bool
try_work(LaIntervalRun *run, LaTriedWork work)
{
	ErrorData  *error;

	if (work != warn_of_error)
		MemoryContextReset(run->temporary);
	MemoryContextSwitchTo(run->temporary);
	run->waits = false;
	error = la_interval_try(work, run);
	if (error != NULL &&
		(run->waits || (run->lock >= ShareUpdateExclusiveLock &&
						la_interval_interrupted(error, ERRCODE_LOCK_NOT_AVAILABLE))))
		run->is_locked_out = true;
	if (error != NULL && la_interval_interrupted(error, ERRCODE_LOCK_NOT_AVAILABLE))
		run->has_waited = true;
	run->error = error;
	commit_step(run);
	return run->error == NULL;
}

/*
 * Gives the lock up whatever happens.
 */
static void
run_locked(LaIntervalRun *run, LaIntervalWork work, const LOCKTAG *tag)
{
	run->context = AllocSetContextCreate(CurrentMemoryContext,
										 "pg_lookahead interval maintenance",
										 ALLOCSET_DEFAULT_SIZES);
	run->temporary = AllocSetContextCreate(run->context,
										   "pg_lookahead interval step",
										   ALLOCSET_DEFAULT_SIZES);
	PG_TRY();
	{
		(void) try_work(run, begin_run);
		work(run);
	}
	PG_FINALLY();
	{
		/* That of the transaction in which a procedure goes on. */
		XactIsoLevel = DefaultXactIsoLevel;
		/* The end of a transaction in an error has given it up. */
		if (LockHeldByMe(tag, ExclusiveLock, false))
			LockRelease(tag, ExclusiveLock, true);
	}
	PG_END_TRY();
	/* An error that is thrown on names a file and a function in it. */
	MemoryContextSwitchTo(MemoryContextGetParent(run->context));
	MemoryContextDelete(run->context);
}

/*
 * Works on a table with a policy, in transactions of its own: outside of any,
 * in a memory context that outlives them, or within that of a procedure that
 * may commit.  Returns false if somebody else does so just now.
 */
bool
la_interval_run(Oid parent, LaIntervalWork work, void *arg)
{
	MemoryContext caller = CurrentMemoryContext;
	LaIntervalRun run = {.parent = parent,.is_alone = !IsTransactionState(),.arg = arg};
	LOCKTAG		tag;
	bool		is_free;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, parent, LA_LOCK_OF_MAINTENANCE);
	/* A function of the table's owner can give up those of users. */
	tag.locktag_lockmethodid = DEFAULT_LOCKMETHOD;
	if (run.is_alone)
		StartTransactionCommand();
	/* Memory of the run outlives its transactions. */
	MemoryContextSwitchTo(caller);
	is_free = LockAcquire(&tag, ExclusiveLock, true, true) != LOCKACQUIRE_NOT_AVAIL;
	if (is_free)
		run_locked(&run, work, &tag);
	if (run.is_alone)
		CommitTransactionCommand();
	MemoryContextSwitchTo(caller);
	return is_free;
}

/*
 * Whether a run has begun: there is a policy, and it could be read.  Warns of an error of that.
 */
bool
la_interval_run_has_begun(LaIntervalRun *run)
{
	if (run->error != NULL)
		(void) try_work(run, warn_of_error);
	return run->error == NULL && run->state != NULL;
}

static void
write_state(void *arg)
{
	LaIntervalRun *run = arg;
	int			level = limit_waits();

	PushActiveSnapshot(GetTransactionSnapshot());
	la_interval_state_write(run->parent, run->version, run->state);
	PopActiveSnapshot();
	AtEOXact_GUC(false, level);
}

/*
 * After an error the next attempt is due after a minute, and after each further one twice as
 * long.  Where the policy is another one by now, nothing is written: whoever set it has written
 * that it is due at once.
 *
 * Neither a state that somebody has locked nor a message that the client cannot be sent stops
 * other tables.
 */
void
la_interval_run_end(LaIntervalRun *run)
{
	LaIntervalState *state = run->state;
	TimestampTz end = GetCurrentTimestamp();
	bool		failed = state->error != NULL;

	state->last_run = end;
	state->blocked = run->blocked.len > 0 ? run->blocked.data : NULL;
	state->next_run = Min(Max(state->next_run, end + LEAST_WAIT),
						  end + LA_INTERVAL_MOST_WAIT);
	if (failed)
		state->next_run = end +
			Min(LEAST_WAIT << Min(state->attempts, 10), LA_INTERVAL_MOST_WAIT);
	if (run->is_locked_out || run->has_waited || run->retired == LA_INTERVAL_MARKED)
		state->next_run = Min(state->next_run, end + MOST_WAIT_FOR_LOCK);
	state->attempts = failed ? state->attempts + 1 : 0;
	if (!try_work(run, write_state))
		la_interval_run_note(run, run->error->message, run->error->sqlerrcode);
	if (state->error != NULL)
		(void) try_work(run, warn_of_error);
}

/*
 * Reads the policy, under the lock of the step if that has one.
 */
static LaIntervalPolicy *
read_policy_of_step(LaIntervalRun *run)
{
	LaIntervalPolicy *policy;

	PushActiveSnapshot(GetTransactionSnapshot());
	policy = run->lock == NoLock ? la_interval_policy_read(run->parent)
		: la_interval_policy_lock(run->parent);
	PopActiveSnapshot();
	run->waits = false;
	if (policy == NULL)
		run->is_superseded = true;
	return policy;
}

static void
limit_wait(int most_ms)
{
	if (LockTimeout > most_ms)
		la_sql_argument_set("lock_timeout", psprintf("%d", most_ms));
}

/*
 * As the table's owner of now, by its policy of now.
 *
 * In the strongest mode the table, and then what else there is to lock, are waited for shortly:
 * whoever waits behind us looks for a deadlock after deadlock_timeout, and would be the victim.
 * By then we have what we want, or have given up.  Who has rows moved says himself how long the
 * table is waited for.  Relies on ProcSleep() in proc.c.
 */
static void
take_step(void *arg)
{
	LaIntervalRun *run = arg;
	LaIntervalPolicy *policy;
	LaIntervalOwner before;
	int			level = limit_waits();

	run->waits = true;
	if (run->lock == AccessExclusiveLock && !run->is_patient)
		limit_wait(Max(DeadlockTimeout / 2, LATER_TIMEOUT));
	if (run->lock != NoLock)
		LockRelationOid(run->parent, run->lock);
	if (run->lock == AccessExclusiveLock)
		limit_wait(LATER_TIMEOUT);
	if (get_rel_name(run->parent) == NULL)
	{
		run->is_superseded = true;
		AtEOXact_GUC(false, level);
		return;
	}
	la_interval_owner_begin(&before, run->parent, NULL);
	policy = read_policy_of_step(run);
	PushActiveSnapshot(GetTransactionSnapshot());
	if (policy != NULL)
	{
		/* What was listed holds for one version of the policy. */
		if (run->version == NULL)
			run->version = MemoryContextStrdup(run->context, policy->version);
		else if (strcmp(run->version, policy->version) != 0)
			run->is_superseded = true;
		if (policy->time_zone != NULL)
			la_sql_argument_set("TimeZone", policy->time_zone);
	}
	run->step(run, policy);
	PopActiveSnapshot();
	la_interval_owner_end(&before);
	AtEOXact_GUC(false, level);
}

/*
 * A step in a transaction.  Returns whether it succeeded.
 */
bool
la_interval_run_step(LaIntervalRun *run, LaIntervalStep step, LOCKMODE lock)
{
	bool		is_done;

	run->step = step;
	run->lock = lock;
	run->until = 0;
	is_done = try_work(run, take_step);
	run->step = NULL;
	return is_done;
}

/*
 * For a step that works with more tables than its own: locks all of them, before the work.
 * Where it has one while it waits for another, all waits together end before deadlock_timeout,
 * so that who waits behind us and has that other one is no victim of a deadlock.  In the strongest
 * mode half of that has gone for the table itself; in a weaker one of the table nobody of them
 * waits for that.  During the work, for which others may wait longer, nothing is to be waited for.
 */
void
la_interval_run_lock(LaIntervalRun *run, const List *tables, LOCKMODE mode)
{
	bool		is_strong = run->lock == AccessExclusiveLock;
	bool		is_short = is_strong || list_length(tables) > 1;
	int			most_ms = is_strong ? DeadlockTimeout / 3 : DeadlockTimeout / 6 * 5;
	int			level = NewGUCNestLevel();

	if (run->until == 0)
		run->until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), most_ms);
	foreach_oid(table, tables)
	{
		if (is_short)
			limit_wait(Max(TimestampDifferenceMilliseconds(GetCurrentTimestamp(), run->until), 1));
		LockRelationOid(table, mode);
	}
	AtEOXact_GUC(false, level);
}

/*
 * For a step without locks: waits for those who use a table, longer than deadlock_timeout, when
 * core has an autovacuum give way.  Without a snapshot, for which CREATE INDEX CONCURRENTLY would
 * wait, which has the table.
 */
void
la_interval_run_let_go(Oid table, LOCKMODE mode)
{
	la_sql_argument_set("lock_timeout",
						psprintf("%d", 2 * Min(DeadlockTimeout, MOST_DEADLOCK_TIMEOUT)));
	PopActiveSnapshot();
	InvalidateCatalogSnapshot();
	LockRelationOid(table, mode);
	PushActiveSnapshot(GetTransactionSnapshot());
}

static void
await_users(void *arg)
{
	LaIntervalRun *run = arg;
	int			level = limit_waits();

	la_interval_retire_await(run->parent, &run->pending);
	AtEOXact_GUC(false, level);
}

/*
 * Waits for those who might know the partition that is marked.  Returns whether
 * they are through.
 */
bool
la_interval_run_await(LaIntervalRun *run)
{
	run->lock = NoLock;
	return try_work(run, await_users);
}

static void
await_snapshots(void *arg)
{
	int			level = limit_waits();

	(void) arg;
	InvalidateCatalogSnapshot();
	WaitForOlderSnapshots(ReadNextTransactionId(), false);
	AtEOXact_GUC(false, level);
}

/*
 * Waits, without locks and snapshots of ours, for everybody who has a snapshot now.  Returns
 * whether they are through.
 */
bool
la_interval_run_await_snapshots(LaIntervalRun *run)
{
	run->lock = NoLock;
	return try_work(run, await_snapshots);
}

/*
 * The error of the last step, which is there until the run ends.
 */
ErrorData *
la_interval_run_keep_error(LaIntervalRun *run)
{
	run->temporary = AllocSetContextCreate(run->context,
										   "pg_lookahead interval step",
										   ALLOCSET_DEFAULT_SIZES);
	return run->error;
}

/*
 * For a step that has waited for a lock: what it looks at from now on is what others have
 * committed meanwhile.
 */
void
la_interval_run_snapshot(void)
{
	PopActiveSnapshot();
	PushActiveSnapshot(GetTransactionSnapshot());
}

/*
 * Notes an error of the run.  The first one counts.
 */
void
la_interval_run_note(LaIntervalRun *run, const char *message, int sqlstate)
{
	if (run->state->error != NULL)
		return;
	run->state->error = MemoryContextStrdup(run->context, message);
	run->state->sqlstate = sqlstate;
}

/*
 * Notes what could not be done and is tried again, which is no error.
 */
void
la_interval_run_note_blocked(LaIntervalRun *run, const char *what,
							 const char *why)
{
	appendStringInfo(&run->blocked, "%s%s: %s",
					 run->blocked.len > 0 ? "\n" : "", what, why);
}
