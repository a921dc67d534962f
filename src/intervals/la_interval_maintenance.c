/*-------------------------------------------------------------------------
 *
 * la_interval_maintenance.c
 *	  keeps the partitions of a table as its policy says
 *
 * New partitions come first, since rows will need them; then old ones go.  All that is to be
 * done is listed once, and checked again for each by whoever does it, under its lock.  If the
 * policy is another one by then, the rest is left to the next run.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/partition.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "intervals/la_interval_maintenance.h"
#include "intervals/la_interval_outlook.h"
#include "intervals/la_interval_owner.h"
#include "intervals/la_interval_run.h"
#include "partitions/la_partition_references.h"

static void
list_wanted(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	if (policy == NULL)
		return;
	MemoryContextSwitchTo(run->context);
	la_interval_create_find_missing(&run->wanted, policy, run->now);
}

/*
 * The tables at the other ends of the table's foreign keys that core locks.
 */
static List *
list_other_ends(Oid parent)
{
	return list_concat_unique_oid(la_partition_references_locked(parent),
								  la_partition_references_locked_to(parent));
}

/*
 * Locks what core does in the end, some of it behind work that takes long: the default partition
 * is searched for rows.  Relies on DefineRelation() and CloneFkReferencing() in tablecmds.c.
 */
static void
create_next(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	Oid			default_partition;
	List	   *others;

	if (run->is_superseded)
		return;
	default_partition = get_default_partition_oid(run->parent);
	others = list_other_ends(run->parent);
	if (OidIsValid(default_partition) && run->lock == AccessExclusiveLock)
		la_interval_run_lock(run, list_make1_oid(default_partition), AccessExclusiveLock);
	la_interval_run_lock(run, others, ShareRowExclusiveLock);
	la_interval_create_batch(&run->wanted, policy);
}

/*
 * The tables that are locked beside this one, or to detach a partition that is marked: then
 * that, too, where an autovacuum can have begun.
 */
static List *
list_others(const LaIntervalRun *run)
{
	Oid			default_partition = get_default_partition_oid(run->parent);
	List	   *others;

	if (run->retired == LA_INTERVAL_MARKED)
		return list_concat(la_partition_references_locked(run->partition),
						   find_all_inheritors(run->partition, NoLock, NULL));
	others = list_other_ends(run->parent);
	return OidIsValid(default_partition) ? lappend_oid(others, default_partition) : others;
}

/*
 * Who has one of these, and waits for another or for the table, would be the victim of a
 * deadlock, since he has waited for longer: so each is waited for shortly then
 * (la_interval_run.c).  Here they are awaited in a mode that readers and writers do not meet, so
 * that an autovacuum gives way.  For a policy that is no more only what is marked is to be done.
 */
static void
await_others(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	if (run->is_superseded && run->retired != LA_INTERVAL_MARKED)
		return;
	/* Somebody else can have finished it, and dropped it. */
	if (run->retired == LA_INTERVAL_MARKED && get_rel_name(run->partition) == NULL)
		return;
	foreach_oid(table, list_others(run))
	{
		la_interval_run_let_go(table, ShareUpdateExclusiveLock);
		UnlockRelationOid(table, ShareUpdateExclusiveLock);
	}
}

/*
 * Creates what is missing, as much as can be.
 */
static void
create_missing(LaIntervalRun *run)
{
	LaIntervalWanted *wanted = &run->wanted;

	if (!la_interval_run_step(run, list_wanted, NoLock))
	{
		la_interval_run_note(run, run->error->message, run->error->sqlerrcode);
		return;
	}
	if (wanted->why != NULL)
		la_interval_run_note_blocked(run, "no further partitions", wanted->why);
	while (wanted->series != NIL && !run->is_superseded)
	{
		bool		was_together = wanted->batch > 1;

		CHECK_FOR_INTERRUPTS();
		if (la_interval_run_step(run, await_others, NoLock) &&
			la_interval_run_step(run, create_next, wanted->lock))
			continue;
		if (!la_interval_create_pass_over(wanted, run->error))
			wanted->series = NIL;
		else if (was_together)
			continue;
		la_interval_run_note(run, run->error->message, run->error->sqlerrcode);
	}
}

/*
 * That a partition cannot be taken out is no error: it stays until whatever keeps it is gone.
 * But one that is marked is not in the table for anybody, and has to be heard of.
 */
static void
note_retiring(LaIntervalRun *run, const ErrorData *error)
{
	const char *name;

	if (!OidIsValid(run->partition))
	{
		la_interval_run_note(run, error->message, error->sqlerrcode);
		return;
	}
	name = get_rel_name(run->partition);
	if (name == NULL)
		name = "?";
	la_interval_run_note_blocked(run, name, error->message);
	if (run->retired == LA_INTERVAL_MARKED &&
		error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
		la_interval_run_note(run,
							 psprintf("partition \"%s\" is detached by half, and no query finds its rows: %s",
									  name, error->message),
							 error->sqlerrcode);
}

static bool
retire_step(LaIntervalRun *run, LaIntervalStep step, LOCKMODE lock)
{
	if (la_interval_run_step(run, step, lock))
		return true;
	note_retiring(run, run->error);
	return false;
}

/*
 * Whether maintenance has marked what is being detached: this partition, by that transaction.
 */
static bool
is_ours(const LaIntervalRun *run)
{
	return run->pending.partition == run->state->detaching &&
		run->pending.mark == run->state->mark;
}

static void
list_old(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	if (policy == NULL)
		return;
	MemoryContextSwitchTo(run->context);
	run->old = la_interval_old_list(policy, run->now);
}

/*
 * Before the table is locked: of numbers a partition may have to be read whole until there is a
 * row, and under the lock only pages near that row are looked at.
 */
static void
look_for_row(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	if (run->old == NULL)
		list_old(run, policy);
	else if (policy != NULL)
		la_interval_old_renew_source(&run->old->source, policy);
}

static void
look_before_drop(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	if (policy != NULL && policy->drops && is_ours(run))
		look_for_row(run, policy);
}

/*
 * For the snapshot of the step, by the policy of now.
 */
static bool
is_still_old(const LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	return policy != NULL && run->old != NULL &&
		la_interval_old_still(policy, &run->old->source, run->partition, run->now);
}

/*
 * Where the row is gone, and there may be others, the partition waits for the next run: what is
 * detached is not dropped later.  Also behind whatever can have waited for others.  By a snapshot
 * of now, by which is_still_old() looks then, too.
 */
static void
check_row(const LaIntervalRun *run)
{
	const LaIntervalOldList *old = run->old;
	LaIntervalPartition source;

	la_interval_run_snapshot();
	if (old != NULL && OidIsValid(old->source.partition) &&
		!la_interval_old_is_source(run->parent, &old->source, &source))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("the row that makes it old was changed meanwhile")));
}

static void
drop_partition(void *partition)
{
	la_interval_retire_drop(*(Oid *) partition);
}

static void
check_members_unused(Oid partition)
{
	foreach_oid(member, find_all_inheritors(partition, NoLock, NULL))
		la_interval_retire_check_unused(member);
}

/*
 * Detaches what is marked whatever the policy says by now, since nobody finds it any more.
 * Drops it where maintenance has marked it, it is old, and the policy says so.  Of a mark that
 * was made since, by somebody who has finished the one that was waited for, nobody has been
 * waited for.
 *
 * What keeps it from being dropped (a view, say) is told; a lock is waited for by the next run.
 */
static void
retire_finish(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	Oid			partition = run->partition;
	LaIntervalPending pending = la_interval_retire_pending(run->parent);
	bool		may_drop;
	bool		drops;
	ErrorData  *error = NULL;

	if (pending.partition != partition || pending.mark != run->pending.mark)
	{
		run->retired = LA_INTERVAL_KEPT;
		return;
	}
	may_drop = is_ours(run) && policy != NULL && policy->drops;
	/* Before other tables are locked in vain. */
	check_members_unused(partition);
	la_interval_run_lock(run, la_partition_references_locked(partition),
						 la_interval_retire_lock_of_references(may_drop));
	if (may_drop)
		check_row(run);
	drops = may_drop && is_still_old(run, policy);
	la_interval_retire_finish(run->parent, partition, drops);
	if (drops)
		error = la_interval_try(drop_partition, &partition);
	if (error != NULL && error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE)
		ReThrowError(error);
	if (drops)
		check_row(run);
	if (error != NULL)
		la_interval_run_note_blocked(run, get_rel_name(partition),
									 psprintf("detached, but not dropped: %s", error->message));
	else if (may_drop && !drops)
		la_interval_run_note_blocked(run, get_rel_name(partition),
									 "detached, but not dropped: it is not old any more");
	run->state->detaching = InvalidOid;
	run->retired = LA_INTERVAL_KEPT;
}

/*
 * Detaches a partition that is marked.  Until then no other one can be.
 */
static bool
finish_pending(LaIntervalRun *run)
{
	run->retired = LA_INTERVAL_MARKED;
	if (!la_interval_run_await(run))
	{
		note_retiring(run, run->error);
		return false;
	}
	return retire_step(run, await_others, NoLock) &&
		retire_step(run, look_before_drop, NoLock) &&
		retire_step(run, retire_finish, ShareUpdateExclusiveLock);
}

/*
 * Core, too, has a partition locked while it marks it; nobody is waited for.  The mark and the
 * note of it in the state are of one transaction.
 */
static void
retire_begin(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	LaIntervalState state = *run->state;
	LaIntervalRetired retired;

	run->retired = LA_INTERVAL_KEPT;
	if (run->is_superseded)
		return;
	if (!ConditionalLockRelationOid(run->partition, ShareUpdateExclusiveLock))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("it is in use")));
	check_row(run);
	if (!is_still_old(run, policy))
		return;
	retired = la_interval_retire_mark(run->parent, run->partition,
									  policy->drops, &run->pauses);
	if (retired != LA_INTERVAL_MARKED)
	{
		run->retired = retired;
		return;
	}
	state.detaching = run->partition;
	state.mark = GetCurrentTransactionId();
	la_interval_state_write(run->parent, run->version, &state);
	check_row(run);
	run->pending.partition = run->partition;
	run->pending.mark = run->pending.since = state.mark;
	*run->state = state;
	run->retired = LA_INTERVAL_MARKED;
}

/*
 * Before the table is locked: a partition whose rows are referenced, or that somebody uses, or
 * a partition of it, is left, and so are all beside a default partition that somebody uses.
 */
static void
check_free(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	Oid			default_partition = get_default_partition_oid(run->parent);

	check_members_unused(run->partition);
	if (OidIsValid(default_partition))
		la_interval_retire_check_unused(default_partition);
	la_interval_retire_check_referenced(run->partition);
	la_interval_run_snapshot();
	look_for_row(run, policy);
	la_interval_retire_check_free(run->partition);
	if (OidIsValid(default_partition))
		la_interval_retire_check_free(default_partition);
}

/*
 * Takes out what cannot be marked.  The parent is locked.  Core reads tables that reference the
 * partition, and then locks them in the strongest mode; readers of both that had come meanwhile
 * would wait for us, and we for them.
 */
static void
retire_locked(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	Oid			default_partition;
	List	   *tables;
	List	   *references;

	if (run->is_superseded)
		return;
	default_partition = get_default_partition_oid(run->parent);
	references = la_partition_references_locked(run->partition);
	tables = OidIsValid(default_partition) ? list_make1_oid(default_partition) : NIL;
	tables = list_concat(lappend_oid(tables, run->partition), la_partition_references_locked_to(run->parent));
	la_interval_run_lock(run, tables, AccessExclusiveLock);
	la_interval_run_lock(run, references,
						 la_interval_retire_lock_of_references(policy->drops));
	check_row(run);
	if (!is_still_old(run, policy))
		return;
	la_interval_retire_lock(run->partition, policy->drops);
	la_interval_retire_detach(run->parent, run->partition);
	if (policy->drops)
		la_interval_retire_drop(run->partition);
	check_row(run);
}

/*
 * Takes a partition out, if it still is old.  Returns whether others can be.
 */
static bool
retire_partition(LaIntervalRun *run)
{
	if (OidIsValid(run->old->source.partition) && !retire_step(run, look_for_row, NoLock))
		return false;
	if (!retire_step(run, retire_begin, ShareUpdateExclusiveLock))
		return !run->is_locked_out;
	switch (run->retired)
	{
		case LA_INTERVAL_KEPT:
			return true;
		case LA_INTERVAL_MARKED:
			return finish_pending(run);
		case LA_INTERVAL_TO_BE_LOCKED:
			if (!retire_step(run, check_free, NoLock))
				return !la_interval_interrupted(run->error, ERRCODE_LOCK_NOT_AVAILABLE);
			if (!retire_step(run, await_others, NoLock))
				return false;
			return retire_step(run, retire_locked, AccessExclusiveLock) ||
				!run->is_locked_out;
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
	LaIntervalState *state = run->state;
	Oid			partition;

	run->pending = la_interval_retire_pending(run->parent);
	partition = run->partition = run->pending.partition;
	if (!OidIsValid(partition))
	{
		state->detaching = InvalidOid;
		return;
	}
	if (is_ours(run))
		return;
	list_old(run, policy);
	if (!is_still_old(run, policy))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("somebody else has begun to detach it (if that was interrupted: DETACH PARTITION ... FINALIZE)")));
}

/*
 * Takes old partitions out, until there is something that keeps all others, too.
 */
static void
retire_all(LaIntervalRun *run)
{
	if (!retire_step(run, find_pending, NoLock))
		return;
	if (OidIsValid(run->partition) && !finish_pending(run))
		return;
	run->partition = InvalidOid;
	if (!retire_step(run, list_old, NoLock) || run->old == NULL)
		return;
	for (int i = 0; i < run->old->count && !run->is_superseded; i++)
	{
		CHECK_FOR_INTERRUPTS();
		run->partition = run->old->partitions[i].relation;
		if (!retire_partition(run))
			return;
	}
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

	if (policy == NULL || policy->analyze_every == NULL)
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
	Relation	parent;
	LaIntervalGrid *grid;

	run->state->next_run = 0;
	if (policy == NULL)
		return;
	parent = la_interval_grid_open(policy->parent);
	grid = la_interval_grid_make(policy, parent);
	table_close(parent, AccessShareLock);
	if (la_interval_grid_is_time(grid->key_type))
	{
		char	   *text = la_partition_series_at_moment(grid->key_type, run->now);
		LaIntervalBound now = la_interval_grid_bound(grid, text);
		LaIntervalRange range = la_interval_grid_find(grid, &now);

		run->state->next_run = la_partition_series_moment(grid->key_type,
														  range.upper.text);
	}
}

static void
maintain(LaIntervalRun *run)
{
	if (!la_interval_run_has_begun(run))
		return;
	create_missing(run);
	if (!run->is_locked_out)
		retire_all(run);
	if (!run->is_locked_out && !la_interval_run_step(run, analyze, NoLock))
		la_interval_run_note(run, run->error->message, run->error->sqlerrcode);
	if (!la_interval_run_step(run, plan_next, NoLock))
		la_interval_run_note(run, run->error->message, run->error->sqlerrcode);
	la_interval_run_end(run);
}

/*
 * Maintains a table with a policy, as la_interval_run() does its work.  Returns false if
 * somebody else does so just now.  What fails is noted in the state; a cancel is thrown.
 */
bool
la_interval_maintain(Oid parent)
{
	return la_interval_run(parent, maintain, NULL);
}
