/*-------------------------------------------------------------------------
 *
 * la_interval_drain.c
 *	  gives rows of the default partition the partitions of their ranges
 *
 * Each range is a transaction of its own (la_interval_run.c): what ends it, an error, a cancel
 * or a crash, leaves its rows where they were. Of numbers, maintenance goes on from the last
 * partition in use: so ranges after that one move as far as they follow without a gap, the
 * lowest first.  Where no partition is in use all move, the highest first: then the others are
 * before it, for further calls, too. None of them moves before that one has.
 *
 * From the commit on the default partition is left out by queries for the range, and the new
 * partition has the rows.  Who has a snapshot from before sees the rows in the default
 * partition only, so such a query of theirs would find none: core, too, has that after DELETE
 * and ATTACH PARTITION.  So nothing is committed while any other session has a snapshot, of
 * whatever table: it would be older than the commit.  Of those sessions some wait for our
 * locks, so they are not waited for: the range is undone, and begun anew when they are through.
 * What is left is a snapshot that is taken between the last look and the commit.
 *
 * The parent is locked as for CREATE TABLE ... PARTITION OF.  Beside the lock of ATTACH
 * PARTITION others could have planned with the partitions of before, wait for the default
 * partition, and then read that alone.
 *
 * Locks are taken in core's order, parent, default partition, tables that are referenced, and
 * from the first one on each is waited for shortly: whoever waits for one of ours hardly looks
 * for a deadlock meanwhile, and so is not the one that has to give way.  Before another attempt
 * the table that was awaited is locked alone, so that core has an autovacuum of it give way.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/table.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "intervals/la_interval_drain.h"
#include "intervals/la_interval_drain_list.h"
#include "intervals/la_interval_drain_rows.h"
#include "intervals/la_interval_owner.h"
#include "intervals/la_interval_run.h"
#include "partitions/la_partition_references.h"

/* How often a range is tried while others are in the way.  Arbitrary. */
#define MOST_TRIES 3

/* A call. */
typedef struct LaDrain
{
	Oid			caller;
	int			most;			/* ranges */
	LaIntervalDrainList list;
	LaIntervalSource source;	/* of the retention */
	char	   *value;			/* of the range that is being moved */
	uint64		moved;			/* rows of it */
	LaIntervalStay stay;		/* why none */
	int			unknown;		/* ranges of which that is not known, one
								 * after the other */
	Oid			awaited;		/* a table that could not be locked, or
								 * InvalidOid */
	LOCKMODE	mode;
	List	   *let_go;			/* of this range, those that were awaited */
} LaDrain;

/*
 * Ranges were listed by one version of the policy.
 */
static void
check_unchanged(LaIntervalRun *run)
{
	if (run->is_superseded)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the table or its interval policy was changed meanwhile"),
				 errhint("Call the procedure again.")));
}

/*
 * Under no lock that anybody meets.
 */
static void
list_ranges(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	LaDrain    *call = run->arg;
	Oid			default_partition;

	check_unchanged(run);
	LockRelationOid(run->parent, AccessShareLock);
	default_partition = get_default_partition_oid(run->parent);
	if (!OidIsValid(default_partition))
		return;
	LockRelationOid(default_partition, AccessShareLock);
	la_interval_drain_check(run->parent, default_partition);
	la_interval_old_find_source(&call->source, policy);
	MemoryContextSwitchTo(run->context);
	la_interval_drain_list(&call->list, policy, &call->source, default_partition);
}

/*
 * Before the table is locked: a partition is searched for a row where the one that was found is
 * gone.
 */
static void
look(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	LaDrain    *call = run->arg;

	check_unchanged(run);
	la_interval_old_renew_source(&call->source, policy);
}

/*
 * Why a range stays, if that is settled by the one before: where the highest one comes first
 * and does not move, no other one may move instead.  What is after a range behind a gap is so,
 * too, where the lowest comes first.  While somebody has a partition locked there is no use in
 * many tries.
 */
static LaIntervalStay
settled(const LaDrain *call, int ranges)
{
	if (call->list.is_unused && ranges == 0 && call->stay != LA_STAY_NOT)
		return LA_STAY_UNKNOWN;
	if ((call->stay == LA_STAY_AWAY && !call->list.is_unused) || call->unknown >= MOST_TRIES)
		return call->stay;
	return LA_STAY_NOT;
}

/*
 * Whether no other range is tried: others are in the way, the table is refused, or the highest
 * range, which has to be the first, has not moved.  Where others empty that one once it has
 * moved, the next one should be as the first, but an error of it ends nothing.
 */
static bool
ends_call(const LaDrain *call, const ErrorData *error, int ranges)
{
	return error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE ||
		error->sqlerrcode == ERRCODE_FEATURE_NOT_SUPPORTED ||
		(call->list.is_unused && ranges == 0);
}

/*
 * Waits for those who use the table that could not be locked, with no other lock but that of
 * having read the policy.
 */
static void
let_go(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	const LaDrain *call = run->arg;

	la_interval_run_let_go(call->awaited, call->mode);
}

/*
 * Whether the attempt failed for a table, and that is let go now, for the first time.  One that
 * was awaited before is not waited for after the last attempt.
 */
static bool
is_let_go(LaIntervalRun *run, bool is_last)
{
	LaDrain    *call = run->arg;
	bool		is_first = !list_member_oid(call->let_go, call->awaited);

	if (!OidIsValid(call->awaited) || (is_last && !is_first))
		return false;
	call->let_go = list_append_unique_oid(call->let_go, call->awaited);
	return la_interval_run_step(run, let_go, NoLock) && is_first;
}

static LaIntervalStay
find_range(const LaDrain *call, const LaIntervalPolicy *policy, LaIntervalRange *range)
{
	LaIntervalDrainTable table;
	LaIntervalBound key;
	LaIntervalStay stay;

	la_interval_drain_open(&table, policy, &call->source);
	key = la_interval_grid_bound(table.grid, call->value);
	stay = la_interval_drain_find(&table, &key, range);
	if (stay == LA_STAY_NOT)
		stay = la_interval_drain_leads_away(&table, range, call->list.is_unused);
	table_close(table.parent, AccessShareLock);
	return stay;
}

static void
lock(const LaIntervalRun *run, Oid table, LOCKMODE mode)
{
	LaDrain    *call = run->arg;

	call->awaited = table;
	call->mode = mode;
	LockRelationOid(table, mode);
	call->awaited = InvalidOid;
}

/*
 * Moves the rows of a range.  The parent is locked; all that was known is found out again.
 */
static void
move(LaIntervalRun *run, const LaIntervalPolicy *policy)
{
	LaDrain    *call = run->arg;
	LaIntervalDrainLocked locked = {.parent = run->parent};
	LaIntervalRange range;
	uint64		moved;

	check_unchanged(run);
	if (!object_ownercheck(RelationRelationId, run->parent, call->caller))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(run->parent));
	locked.default_partition = get_default_partition_oid(run->parent);
	if (!OidIsValid(locked.default_partition))
		return;
	lock(run, locked.default_partition, AccessExclusiveLock);
	/* The creation of a partition locks these. */
	locked.references = la_partition_references_locked(run->parent);
	foreach_oid(table, locked.references)
		lock(run, table, ShareRowExclusiveLock);
	la_interval_run_snapshot();
	la_interval_drain_check(run->parent, locked.default_partition);
	call->stay = find_range(call, policy, &range);
	if (call->stay != LA_STAY_NOT)
		return;
	la_interval_drain_check_alone(&locked, DeadlockTimeout / 10);
	moved = la_interval_drain_rows(policy, &range, &locked);
	if (moved == 0)
		return;
	/* Publications are changed without a lock on their tables. */
	AcceptInvalidationMessages();
	la_interval_drain_check(run->parent, locked.default_partition);
	la_interval_drain_check_alone(&locked, DeadlockTimeout / 2);
	call->moved = moved;
}

/*
 * Tries a range until nobody is in the way.  Returns NULL, or the error for which it is given
 * up.  An attempt that ends with a table that is let go then is not counted, so that each table
 * can be vacuumed.
 */
static ErrorData *
move_in_turn(LaIntervalRun *run)
{
	LaDrain    *call = run->arg;

	list_free(call->let_go);
	call->let_go = NIL;
	for (int tries = 1;;)
	{
		ErrorData  *error;

		CHECK_FOR_INTERRUPTS();
		call->moved = 0;
		call->stay = LA_STAY_NOT;
		call->awaited = InvalidOid;
		if ((!OidIsValid(call->source.partition) || la_interval_run_step(run, look, NoLock)) &&
			la_interval_run_step(run, move, AccessExclusiveLock))
			return NULL;
		error = la_interval_run_keep_error(run);
		if (run->is_superseded || error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
			return error;
		if (!is_let_go(run, tries == MOST_TRIES) && tries++ == MOST_TRIES)
			return error;
		if (!la_interval_run_await_snapshots(run))
			return error;
		MemoryContextDelete(GetMemoryChunkContext(error));
	}
}

static void
tell(const LaIntervalRun *run, uint64 rows, int ranges)
{
	const LaDrain *call = run->arg;
	const char *name = get_rel_name(run->parent);
	int64		without = call->list.stay[LA_STAY_WITHOUT];
	int64		far = call->list.stay[LA_STAY_FAR];
	int64		old = call->list.stay[LA_STAY_OLD];
	int64		away = call->list.stay[LA_STAY_AWAY];
	int64		unknown = call->list.stay[LA_STAY_UNKNOWN];
	int64		all = without + far + old + away + unknown;

	if (name == NULL)
		name = "?";
	ereport(NOTICE,
			(errmsg("rows of \"%s\" moved out of the default partition: %llu, into partitions: %d",
					name, (unsigned long long) rows, ranges)));
	if (all > 0)
		ereport(NOTICE,
				(errmsg("rows of \"%s\" that stay in the default partition: %lld",
						name, (long long) all),
				 errdetail("%lld have no range: their key is null, infinite or beyond the last range, or its partition is being detached. "
						   "%lld are more than \"max_distance\" steps from the other partitions. "
						   "%lld would be old by the retention, or make other partitions old. "
						   "%lld are after a gap behind the last partition in use. "
						   "Of %lld that is not known, because others have locked or changed a partition meanwhile.",
						   (long long) without, (long long) far, (long long) old,
						   (long long) away, (long long) unknown)));
}

static void
drain(LaIntervalRun *run)
{
	LaDrain    *call = run->arg;
	ErrorData  *first = NULL;
	uint64		rows = 0;
	int			ranges = 0;
	int			count;

	if (run->error != NULL)
		ReThrowError(run->error);
	run->is_patient = true;
	if (!la_interval_run_step(run, list_ranges, NoLock))
		ReThrowError(run->error);
	count = list_length(call->list.ranges);
	for (int i = 0; i < count && ranges < call->most && !run->is_superseded; i++)
	{
		const LaIntervalDrained *range =
			list_nth(call->list.ranges, call->list.is_unused ? count - 1 - i : i);
		ErrorData  *error = NULL;

		call->value = range->value;
		call->stay = settled(call, ranges);
		if (call->stay == LA_STAY_NOT)
			error = move_in_turn(run);
		rows += call->moved;
		ranges += call->moved > 0;
		call->unknown = call->stay == LA_STAY_UNKNOWN ? call->unknown + 1 : 0;
		if (call->stay != LA_STAY_WITHOUT && call->stay != LA_STAY_NOT)
			call->list.stay[call->stay] += range->rows;
		if (first == NULL)
			first = error;
		if (error != NULL && ends_call(call, error, ranges))
			break;
		if (error != NULL && error != first)
			MemoryContextDelete(GetMemoryChunkContext(error));
	}
	if (ranges == 0)
		check_unchanged(run);
	tell(run, rows, ranges);
	if (first != NULL)
		ReThrowError(first);
	check_unchanged(run);
}

/*
 * Moves rows of at most so many ranges, within a procedure that may commit.  Returns false if
 * somebody else maintains the table just now.  An error that does not end the call is thrown in
 * the end, the first one.
 */
bool
la_interval_drain(Oid parent, int most)
{
	LaDrain		call = {.caller = GetUserId(),.most = most,.stay = LA_STAY_NOT};

	return la_interval_run(parent, drain, &call);
}
