/*-------------------------------------------------------------------------
 *
 * la_partition_create.c
 *	  checks a parent, and creates the partitions of a series that are missing
 *
 * First everything is found out that could be wrong, then partitions are
 * created; an error at any point undoes all of the transaction.
 *
 * Locks are taken in core's order, parent, default partition, new partitions,
 * and the parent's at once in the strength that is needed: two sessions that
 * create the same partitions wait for each other, and the second finds them.
 *
 * A transaction keeps its locks on whatever it created: the table, its TOAST
 * table, their indexes, and types and constraints that others were made to
 * depend on.  When the shared lock table is full, statements of all sessions
 * fail.  How many locks a partition takes depends on the parent in ways that
 * only core knows, so it is counted with the first one.
 *
 * Reads PartitionKeyData of partcache.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "partitioning/partdesc.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "la_compat.h"
#include "partitions/la_partition_attached.h"
#include "partitions/la_partition_create.h"
#include "partitions/la_partition_direct.h"
#include "partitions/la_partition_plan.h"
#include "partitions/la_partition_statement.h"
#include "partitions/la_partition_way.h"

/* The shared lock table, counted at one moment. */
typedef struct LaLockCount
{
	int64		own;			/* this process's locks in it */
	int64		free;			/* entries that nobody has */
} LaLockCount;

/* A batch that is being created. */
typedef struct LaPartitionBatch
{
	const LaPartitionRequest *request;
	LaPartitionWay way;
	const char *reason;			/* why not a faster one */
	LaPartitionPlan *plan;
	LaPartitionDirect *direct;	/* with that way */
	LaPartitionAttached *attached;	/* with that way */
	Oid			default_partition;	/* or InvalidOid */
} LaPartitionBatch;

/*
 * Refuses what CREATE TABLE refuses before it looks at anything, and whoever
 * could lock a table with us that is not theirs.
 */
void
la_partition_check_command(Oid parent)
{
	PreventCommandIfReadOnly("CREATE TABLE");
	PreventCommandIfParallelMode("CREATE TABLE");
	PreventCommandDuringRecovery("CREATE TABLE");
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(parent)))
		la_partition_refuse_missing(parent);
	if (!object_ownercheck(RelationRelationId, parent, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER,
					   get_relkind_objtype(get_rel_relkind(parent)),
					   get_rel_name(parent));
}

/*
 * Opens the parent, which is locked.
 */
static Relation
open_parent(Oid parent)
{
	Relation	relation = try_table_open(parent, NoLock);

	if (relation == NULL)
		la_partition_refuse_missing(parent);
	if (!object_ownercheck(RelationRelationId, parent, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE,
					   RelationGetRelationName(relation));
	if (RELATION_IS_OTHER_TEMP(relation))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot create as partition of temporary relation of another session")));
	return relation;
}

/*
 * The type of the key, and of a domain the type below it.
 */
Oid
la_partition_key_type(Oid parent, bool by_list)
{
	Relation	relation;
	Oid			type;

	LockRelationOid(parent, AccessShareLock);
	relation = open_parent(parent);
	la_partition_check_key(relation, by_list);
	type = getBaseType(RelationGetPartitionKey(relation)->parttypid[0]);
	table_close(relation, AccessShareLock);
	return type;
}

/*
 * The lock of the way, which is decided here.  With a default partition, whose
 * constraint changes, nobody may be about to put rows into it.
 */
static LOCKMODE
lock_of_way(const LaPartitionRequest *request, LaPartitionResult *result)
{
	result->way = la_partition_way(request, &result->reason);
	return result->way <= LA_PARTITION_ATTACHED &&
		!OidIsValid(get_default_partition_oid(request->parent)) ?
		ShareUpdateExclusiveLock : AccessExclusiveLock;
}

/*
 * The lock on the parent with which la_partition_create() begins, by what can be seen without one.
 */
LOCKMODE
la_partition_lock_needed(const LaPartitionRequest *request)
{
	LaPartitionResult result = {0};

	return lock_of_way(request, &result);
}

/*
 * Decides the way, and takes the lock that it needs: that of ATTACH PARTITION,
 * or that of CREATE TABLE ... PARTITION OF where such statements are executed.
 * Seldom, if the table has got triggers or a default partition meanwhile, a
 * second one.
 */
static void
lock_parent(const LaPartitionRequest *request, LaPartitionResult *result)
{
	LOCKMODE	first = lock_of_way(request, result);
	LOCKMODE	needed;

	LockRelationOid(request->parent, first);
	needed = lock_of_way(request, result);
	if (needed > first)
		LockRelationOid(request->parent, needed);
}

/*
 * What there is to do before the first partition, while the parent is open.
 */
static void
begin_batch(LaPartitionBatch *batch, Relation parent)
{
	Relation	relation;

	switch (batch->way)
	{
		case LA_PARTITION_NATIVE:
			ereport(NOTICE,
					(errmsg("%d partitions of \"%s\" are created by one statement each",
							batch->plan->count, RelationGetRelationName(parent)),
					 errdetail("The reason is: %s.", batch->reason)));
			return;
#ifdef LA_PARTITIONS_PORTED
		case LA_PARTITION_DIRECT:
			batch->direct = la_partition_direct_begin(batch->request, parent);
			break;
		case LA_PARTITION_ATTACHED:
			batch->attached = la_partition_attached_begin(batch->request, parent);
			return;
#endif

		default:
			break;
	}

	/*
	 * Looks into the default partition for rows that would belong to new
	 * ones.  Its own constraint changes with them, so that nobody may use it
	 * until all know.  Mirrors DefineRelation() in tablecmds.c.
	 */
	batch->default_partition =
		get_default_oid_from_partdesc(RelationGetPartitionDesc(parent, true));
	if (!OidIsValid(batch->default_partition))
		return;
	relation = table_open(batch->default_partition, AccessExclusiveLock);
	la_partition_plan_check_default(batch->plan, parent, relation);
	table_close(relation, NoLock);
}

static void
create_one(const LaPartitionBatch *batch, const LaPlannedPartition *planned)
{
	switch (batch->way)
	{
#ifdef LA_PARTITIONS_PORTED
		case LA_PARTITION_DIRECT:
			la_partition_direct_create(batch->direct, planned);
			break;
		case LA_PARTITION_ATTACHED:
			la_partition_attached_create(batch->attached, planned);
			break;
#endif

		default:
			la_partition_statement_execute(batch->request, planned->name,
										   planned->number);
			break;
	}
}

/*
 * Counts the locks of all processes, which holds them up for a moment: for
 * once or twice per call.  A lock that several processes hold counts several
 * times, so that rather too little is said to be free; and a reserve beyond
 * what the settings say is left to the others.  Relies on
 * LockManagerShmemSize() in lock.c.
 */
static LaLockCount
count_locks(void)
{
	LockData   *locks = GetLockStatusData();
	LaLockCount count = {0};

	count.free = (int64) max_locks_per_xact * (MaxBackends + max_prepared_xacts);
	for (int i = 0; i < locks->nelements; i++)
	{
		const LockInstanceData *lock = &locks->locks[i];

		if (lock->fastpath)
			continue;
		count.free--;
		if (lock->pid == MyProcPid && lock->holdMask != 0)
			count.own++;
	}
	pfree(locks->locks);
	pfree(locks);
	return count;
}

/*
 * After the first partition: whether the lock table has room for the others.
 * Where the batch may be shorter, it takes half of what is free.
 */
static void
check_room(LaPartitionBatch *batch, int64 own, bool may_commit)
{
	LaLockCount now = count_locks();
	int64		each = Max(now.own - own, 1);
	LaPartitionPlan *plan = batch->plan;
	int64		room = Max(now.free, 0) / each;

	if (may_commit)
		room /= 2;
	if (plan->count - 1 <= room)
		return;
	if (!may_commit)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("the lock table has no room for %d partitions of \"%s\" in one transaction",
						plan->count, get_rel_name(batch->request->parent)),
				 errdetail("Each takes " INT64_FORMAT " locks, and " INT64_FORMAT " are free.",
						   each, now.free),
				 errhint("Call the procedure of this name with \"_batched\", which commits in between, or increase \"max_locks_per_transaction\".")));
	plan->count = room + 1;
	plan->next = plan->missing[plan->count].number;
}

/*
 * Creates what is planned, or a beginning of it.
 */
static void
create_planned(LaPartitionBatch *batch, bool may_commit)
{
	int64		own = count_locks().own;
	MemoryContext temporary = AllocSetContextCreate(CurrentMemoryContext,
													"pg_lookahead new partition",
													ALLOCSET_DEFAULT_SIZES);
	MemoryContext outer = MemoryContextSwitchTo(temporary);

	/*
	 * Whatever is cached of the parent from here on is thrown away by an
	 * error: an invalidation of its relcache entry that a finished command
	 * has noted is executed then.  Relies on AtEOXact_Inval() and
	 * AtEOSubXact_Inval() in inval.c.
	 */
	CacheInvalidateRelcacheByRelid(batch->request->parent);
	CommandCounterIncrement();

	for (int i = 0; i < batch->plan->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		create_one(batch, &batch->plan->missing[i]);
		MemoryContextReset(temporary);
		if (i == 0)
			check_room(batch, own, may_commit);
	}
	MemoryContextSwitchTo(outer);
	MemoryContextDelete(temporary);
}

/*
 * Creates partitions from result->next on, at most so many, and adds to the
 * result.  Where transactions may be committed in between, creates fewer when
 * the lock table has no room for all, else throws.
 */
void
la_partition_create(const LaPartitionRequest *request, int limit,
					bool may_commit, LaPartitionResult *result)
{
	int			first = result->next;
	LaPartitionBatch batch = {.request = request};
	Relation	parent;

	la_partition_check_command(request->parent);
	lock_parent(request, result);
	parent = open_parent(request->parent);
	la_partition_check_key(parent, request->series->is_list);
	if (result->way != LA_PARTITION_NATIVE &&
		la_partition_calls_functions(request->parent))
	{
		LockRelationOid(request->parent, AccessExclusiveLock);
		result->way = LA_PARTITION_NATIVE;
		result->reason = "functions of users";
	}
	batch.way = result->way;
	batch.reason = result->reason;
	CheckTableNotInUse(parent, "CREATE TABLE .. PARTITION OF");
	if (!request->series->is_list &&
		request->series->key_type !=
		getBaseType(RelationGetPartitionKey(parent)->parttypid[0]))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the partition key of \"%s\" was changed meanwhile",
						RelationGetRelationName(parent))));

	batch.plan = la_partition_plan(request, parent, first, limit);
	if (batch.plan->count > 0)
		begin_batch(&batch, parent);
	table_close(parent, NoLock);
	if (batch.plan->count > 0)
	{
		create_planned(&batch, may_commit);
#ifdef LA_PARTITIONS_PORTED
		if (batch.way == LA_PARTITION_DIRECT)
			la_partition_direct_end(batch.direct);
#endif

		/* Makes known what has changed of another table. */
		if (OidIsValid(batch.default_partition))
			CacheInvalidateRelcacheByRelid(batch.default_partition);
		CommandCounterIncrement();
	}
	result->next = batch.plan->next;
	result->created += batch.plan->count;
	result->present += batch.plan->next - first - batch.plan->count;
}

void
la_partition_refuse_missing(Oid relation)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
			 errmsg("relation with OID %u does not exist", relation)));
}

/*
 * Refuses a table without partitions, and a key of another kind, or of several columns.
 */
void
la_partition_check_key(Relation parent, bool by_list)
{
	PartitionKey key = RelationGetPartitionKey(parent);

	if (parent->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("\"%s\" is not partitioned",
						RelationGetRelationName(parent))));
	if (key->strategy != (by_list ? PARTITION_STRATEGY_LIST
						  : PARTITION_STRATEGY_RANGE))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("table \"%s\" is not partitioned by %s",
						RelationGetRelationName(parent),
						by_list ? "list" : "range")));
	if (key->partnatts != 1)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" is partitioned by more than one column or expression",
						RelationGetRelationName(parent))));
}
