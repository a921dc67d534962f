/*-------------------------------------------------------------------------
 *
 * la_interval_retire.c
 *	  takes partitions out of a table that its policy keeps no longer
 *
 * What ALTER TABLE ... DETACH PARTITION CONCURRENTLY does in two transactions
 * of its own, which no function may call, is done here in three of ours:
 *
 * 1. The partition is marked as one that is being detached.  Who looks for partitions
 *    from then on does not find it.  Core lets one partition of a table be marked at a time.
 * 2. Whoever might know it still is waited for, without a lock and without a snapshot, so that
 *    nobody can wait for us meanwhile: those who have the table locked (a transaction that goes
 *    on has its plans and descriptors, and takes no other look), and those whose snapshot is
 *    older than the mark.  Mirrors ATExecDetachPartition() in tablecmds.c.
 * 3. Core's FINALIZE does the rest, under a lock of the partition that is taken only where nobody
 *    has one.  Its own wait for snapshots, with that lock held, has nothing left to wait for.
 *
 * There is no way back from a mark, and nobody finds the rows.  So nothing is marked before it
 * is certain that it can be finished: where an event trigger could refuse that, where a default
 * partition or foreign keys forbid it, the table is locked instead, and all is one transaction.
 *
 * Locks are taken in core's order, parent, default partition, partition.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "intervals/la_interval_owner.h"
#include "intervals/la_interval_retire.h"
#include "partitions/la_partition_references.h"
#include "partitions/la_partition_way.h"

/* How often locks that are about to be given back are looked at. */
#define POLL_MS 5

/* How many of these pauses an ordinary transaction takes at most.  Arbitrary. */
#define MOST_PAUSES 10

/*
 * The partition of a table that is being detached.
 */
LaIntervalPending
la_interval_retire_pending(Oid parent)
{
	Relation	inherits = table_open(InheritsRelationId, AccessShareLock);
	LaIntervalPending pending = {0};
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_inherits_inhparent, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(parent));
	scan = systable_beginscan(inherits, InheritsParentIndexId, true, NULL, 1,
							  &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_inherits row = (Form_pg_inherits) GETSTRUCT(tuple);

		if (!row->inhdetachpending)
			continue;
		pending.partition = row->inhrelid;
		pending.mark = HeapTupleHeaderGetRawXmin(tuple->t_data);
		pending.since = HeapTupleHeaderGetXmin(tuple->t_data);
	}
	systable_endscan(scan);
	table_close(inherits, AccessShareLock);
	return pending;
}

/*
 * Why a partition cannot be detached beside others, or NULL.
 */
const char *
la_interval_retire_obstacle(Oid parent, Oid partition)
{
	if (OidIsValid(get_default_partition_oid(parent)))
		return "default partition";
	if (la_partition_references_to(partition) != NIL)
		return "foreign keys";
	if (la_partition_fires_event_trigger(CMDTAG_ALTER_TABLE))
		return "event trigger";
	return NULL;
}

/*
 * Refuses what FINALIZE would, which has to find the relation by its name.
 */
static void
check_schema(Oid relation)
{
	Oid			schema = get_rel_namespace(relation);
	AclResult	result = object_aclcheck(NamespaceRelationId, schema,
										 GetUserId(), ACL_USAGE);

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_SCHEMA, get_namespace_name(schema));
}

/*
 * The lock that tables are to have which the partition references: core makes triggers there
 * when it is detached, and drops them with it.
 */
LOCKMODE
la_interval_retire_lock_of_references(bool drops)
{
	return drops ? AccessExclusiveLock : ShareRowExclusiveLock;
}

/*
 * Refuses what would have FINALIZE wait for others while tables that the partition references are
 * locked: who waits for those and has a snapshot would be the victim of a deadlock.  See
 * execute_behind_all().
 */
static void
refuse_overflow(const SnapshotData *snapshot, Oid partition)
{
	if (snapshot->suboverflowed && la_partition_references_of(partition) != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("a transaction has more subtransactions than a snapshot names")));
}

static void
pause_shortly(void)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 POLL_MS, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * Who has the table, up to one that is invalid.
 */
static VirtualTransactionId *
users_of(Oid table, LOCKMODE lock)
{
	LOCKTAG		tag;
	int			count;
	VirtualTransactionId *conflicts;
	VirtualTransactionId *users;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, table);
	/* Has room for all there can be. */
	conflicts = GetLockConflicts(&tag, lock, &count);
	users = palloc_array(VirtualTransactionId, count + 1);
	memcpy(users, conflicts, (count + 1) * sizeof(VirtualTransactionId));
	pfree(conflicts);
	return users;
}

/*
 * Whether somebody is there still after as many pauses as there may be.
 */
static bool
any_stays(const VirtualTransactionId *users, int *pauses)
{
	for (; VirtualTransactionIdIsValid(*users); users++)
	{
		while (!VirtualXactLock(*users, false))
		{
			if (*pauses == MOST_PAUSES)
				return true;
			(*pauses)++;
			pause_shortly();
		}
	}
	return false;
}

static void
refuse_reference(Oid table)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("table \"%s\", which it references, is in use",
					get_rel_name(table))));
}

/*
 * Refuses to mark a partition that could not be detached, or dropped, soon: the last step waits for
 * the tables that it references, but not for a vacuum of one, or for a transaction that takes long.
 * That is waited for once, not for each table and partition, and without a lock, for which others
 * would wait.  Readers and writers who come meanwhile are not looked at.  Others are, and so is
 * who waits for a table, behind whom the last step would wait.
 */
static void
check_references(Oid partition, bool drops, int *pauses)
{
	LOCKMODE	lock = la_interval_retire_lock_of_references(drops);
	List	   *tables = la_partition_references_locked(partition);
	List	   *users = NIL;
	ListCell   *table;
	ListCell   *its;

	foreach(table, tables)
		users = lappend(users, users_of(lfirst_oid(table), lock));
	forboth(table, tables, its, users)
	{
		if (any_stays(lfirst(its), pauses))
			refuse_reference(lfirst_oid(table));
	}
	foreach_oid(reference, tables)
	{
		if (!ConditionalLockRelationOid(reference, ShareUpdateExclusiveLock))
			refuse_reference(reference);
		UnlockRelationOid(reference, ShareUpdateExclusiveLock);
	}
	refuse_overflow(GetTransactionSnapshot(), partition);
	*pauses = 0;
}

/*
 * Refuses to drop a partition of which somebody is detaching a partition: that would be dropped
 * with it.
 */
static void
check_below(Oid partition)
{
	foreach_oid(member, find_all_inheritors(partition, NoLock, NULL))
	{
		Oid			below = la_interval_retire_pending(member).partition;

		if (OidIsValid(below))
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("somebody else has begun to detach its partition \"%s\" (if that was interrupted: DETACH PARTITION ... FINALIZE)",
							get_rel_name(below))));
	}
}

/*
 * Marks a partition as one that is being detached, if that can be done.  The parent is
 * locked, and the transaction ends with this.  As the table's owner.  Mirrors
 * MarkInheritDetached() in tablecmds.c.
 */
LaIntervalRetired
la_interval_retire_mark(Oid parent, Oid partition, bool drops, int *pauses)
{
	Relation	inherits;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (la_interval_retire_obstacle(parent, partition) != NULL)
		return LA_INTERVAL_TO_BE_LOCKED;
	if (OidIsValid(la_interval_retire_pending(parent).partition))
		return LA_INTERVAL_BUSY;
	check_schema(parent);
	check_schema(partition);
	check_references(partition, drops, pauses);
	if (drops)
		check_below(partition);
	inherits = table_open(InheritsRelationId, RowExclusiveLock);
	ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(partition));
	scan = systable_beginscan(inherits, InheritsRelidSeqnoIndexId, true, NULL,
							  1, &key);
	tuple = systable_getnext(scan);
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "relation %u is no partition", partition);
	tuple = heap_copytuple(tuple);
	((Form_pg_inherits) GETSTRUCT(tuple))->inhdetachpending = true;
	CatalogTupleUpdate(inherits, &tuple->t_self, tuple);
	systable_endscan(scan);
	table_close(inherits, RowExclusiveLock);
	CacheInvalidateRelcacheByRelid(parent);
	return LA_INTERVAL_MARKED;
}

static void
refuse_used(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("it is in use")));
}

static bool
is_locked_by_others(Oid relation)
{
	LOCKTAG		tag;
	VirtualTransactionId *others;
	bool		found;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relation);
	others = GetLockConflicts(&tag, AccessExclusiveLock, NULL);
	found = VirtualTransactionIdIsValid(*others);
	pfree(others);
	return found;
}

static bool
is_free(Oid relation)
{
	bool		is_locked = ConditionalLockRelationOid(relation, AccessExclusiveLock);

	if (is_locked)
		UnlockRelationOid(relation, AccessExclusiveLock);
	return is_locked;
}

/*
 * Waits for those who have these tables locked, for as long as lock_timeout says.  Whoever was
 * waited for by its transaction gives back its locks a moment later, which a busy machine makes
 * long; until then GetLockConflicts() leaves it out.  Relies on LockReleaseAll() in lock.c.
 */
static void
await_release(List *members)
{
	TimestampTz begin = GetCurrentTimestamp();

	foreach_oid(member, members)
	{
		while ((is_locked_by_others(member) || !is_free(member)) &&
			   !TimestampDifferenceExceeds(begin, GetCurrentTimestamp(), LockTimeout))
			pause_shortly();
	}
}

/*
 * Waits until nobody can know a partition of this table that was marked.  Without
 * locks and snapshots of ours; each wait ends after lock_timeout.
 */
void
la_interval_retire_await(Oid parent, const LaIntervalPending *pending)
{
	LOCKTAG		tag;
	List	   *members = find_all_inheritors(pending->partition, NoLock, NULL);

	Assert(!ActiveSnapshotSet());
	InvalidateCatalogSnapshot();
	SET_LOCKTAG_RELATION(tag, MyDatabaseId, parent);
	WaitForLockersMultiple(list_make1(&tag), AccessExclusiveLock, false);
	/* Nobody is older than a mark that was frozen. */
	if (TransactionIdIsNormal(pending->since))
		WaitForOlderSnapshots(pending->since, false);
	await_release(members);
	/* Before the tables that it references are locked in vain. */
	refuse_overflow(GetTransactionSnapshot(), pending->partition);
}

/*
 * After a command, which finds a relation by its name: what should have changed and has not
 * tells that it has met another one.  A schema can be renamed in between, and no lock on what
 * is in it keeps others from that.
 */
static void
refuse_another(bool is_another)
{
	if (is_another)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("its schema was renamed meanwhile")));
}

/*
 * Executes FINALIZE with a snapshot that says of itself to be older than any other.  FINALIZE
 * waits for all who are older than its snapshot, with the partition locked, for which they may
 * wait; those who matter are gone.  What a snapshot sees does not change by an older xmin: it
 * only says below which number no transaction has to be looked for among those in progress.
 * Unless it does not have all of them: then it is left as it is.  Relies on
 * ATExecDetachPartitionFinalize() in tablecmds.c and XidInMVCCSnapshot() in snapmgr.c.
 */
static void
execute_behind_all(const char *command, Oid partition)
{
	SnapshotData snapshot = *GetTransactionSnapshot();
	SPIPlanPtr	plan;

	refuse_overflow(&snapshot, partition);
	if (!snapshot.suboverflowed)
	{
		snapshot.xmin = TransamVariables->oldestXid;
		TransactionIdRetreat(snapshot.xmin);
	}
	SPI_connect();
	plan = SPI_prepare(command, 0, NULL);
	if (plan == NULL ||
		SPI_execute_snapshot(plan, NULL, NULL, &snapshot, InvalidSnapshot,
							 false, true, 0) < 0)
		elog(ERROR, "command failed: %s", command);
	SPI_finish();
}

/*
 * Locks a partition and its own ones, if nobody has them.
 */
void
la_interval_retire_lock(Oid partition, bool drops)
{
	foreach_oid(member, find_all_inheritors(partition, NoLock, NULL))
	{
		if (!ConditionalLockRelationOid(member, AccessExclusiveLock))
			refuse_used();
	}
	if (drops)
		check_below(partition);
}

/*
 * Detaches a partition that is marked, when whoever knew it has been waited for.  The
 * parent is locked, and so are the tables that the partition references.  As the table's owner.
 */
void
la_interval_retire_finish(Oid parent, Oid partition, bool drops)
{
	la_interval_retire_lock(partition, drops);
	execute_behind_all(psprintf("ALTER TABLE %s DETACH PARTITION %s FINALIZE",
								la_interval_owner_name(parent),
								la_interval_owner_name(partition)),
					   partition);
	refuse_another(get_rel_relispartition(partition));
}

/*
 * For a partition that cannot be marked: an error where somebody is seen to use it, without
 * having anybody wait.
 */
void
la_interval_retire_check_free(Oid partition)
{
	if (!is_free(partition))
		refuse_used();
}

/*
 * The same before a long look, without a lock, which standbys would keep until the end of that.
 */
void
la_interval_retire_check_unused(Oid partition)
{
	if (is_locked_by_others(partition))
		refuse_used();
}

static void
check_key(Relation partition, Form_pg_constraint key)
{
	Relation	referencing = try_table_open(key->conrelid, AccessShareLock);
	Trigger		trigger = {
		.tgname = NameStr(key->conname),
		.tgconstrrelid = RelationGetRelid(partition),
		.tgconstrindid = key->conindid,
		.tgconstraint = key->oid,
	};

	if (referencing == NULL)
		return;
	/* It may have been dropped meanwhile. */
	if (SearchSysCacheExists1(CONSTROID, ObjectIdGetDatum(key->oid)))
		RI_PartitionRemove_Check(&trigger, referencing, partition);
	table_close(referencing, AccessShareLock);
}

/*
 * For a partition that cannot be marked: core's error where rows of it are referenced.  Core
 * looks for them with the table locked, and reads all of the tables that reference it; so that
 * is not done again and again while there are some. Mirrors ATDetachCheckNoForeignKeyRefs() in
 * tablecmds.c.
 */
void
la_interval_retire_check_referenced(Oid partition)
{
	Relation	relation = try_table_open(partition, AccessShareLock);

	if (relation == NULL)
		return;
	foreach_oid(key, la_partition_references_keys_to(partition))
	{
		HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(key));

		if (!HeapTupleIsValid(tuple))
			continue;
		if (OidIsValid(((Form_pg_constraint) GETSTRUCT(tuple))->conparentid))
			check_key(relation, (Form_pg_constraint) GETSTRUCT(tuple));
		ReleaseSysCache(tuple);
	}
	table_close(relation, AccessShareLock);
}

/*
 * Detaches a partition that cannot be marked.  It, the parent and the default partition
 * are locked.  As the table's owner.
 */
void
la_interval_retire_detach(Oid parent, Oid partition)
{
	la_interval_owner_execute(psprintf("ALTER TABLE %s DETACH PARTITION %s",
									   la_interval_owner_name(parent),
									   la_interval_owner_name(partition)));
	refuse_another(get_rel_relispartition(partition));
}

/*
 * Drops what was detached.
 */
void
la_interval_retire_drop(Oid partition)
{
	bool		is_foreign = get_rel_relkind(partition) == RELKIND_FOREIGN_TABLE;

	la_interval_owner_execute(psprintf("DROP %sTABLE %s",
									   is_foreign ? "FOREIGN " : "",
									   la_interval_owner_name(partition)));
	refuse_another(get_rel_name(partition) != NULL);
}
