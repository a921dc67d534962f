/*-------------------------------------------------------------------------
 *
 * la_interval_retire.c
 *	  takes partitions out of a table that its policy keeps no longer
 *
 * Of keys of times those are old whose upper bound is as long ago as the
 * policy says; of numbers those whose upper bound is as far below the last
 * partition that has a row.  So a partition is old as a whole or not at all.  The default
 * partition never is, nor one without an upper bound.
 *
 * What ALTER TABLE ... DETACH PARTITION CONCURRENTLY does in two transactions
 * of its own, which no function may call, is done here in two of ours: the
 * partition is marked as one that is being detached, and when whoever could
 * still use it is through, core's FINALIZE does the rest.  Like that command, this
 * is not for tables with a default partition; neither for those that foreign
 * keys reference.  There the table is locked for a moment.  Relies on
 * ATExecDetachPartitionFinalize() in tablecmds.c, which waits for older
 * snapshots: so the partition needs no CHECK in place of its bounds.
 *
 * There is no way back from a mark, and nobody finds the rows: so what maintenance has
 * marked it finishes, whatever the policy says by then; dropped is what is old.
 * What somebody else has marked may be waited for by that command, which would fail.
 * Core lets one partition of a table be marked at a time.
 *
 * Locks are taken in core's order, parent, default partition, partition, and
 * under them it is looked again whether the partition is old: somebody may have
 * attached it with other bounds meanwhile.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "nodes/pg_list.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "intervals/la_interval_owner.h"
#include "intervals/la_interval_partitions.h"
#include "intervals/la_interval_retire.h"
#include "intervals/la_interval_try.h"
#include "partitions/la_partition_way.h"

/* What partitions are compared with. */
typedef struct LaIntervalLimit
{
	bool		exists;
	bool		is_time;
	LaIntervalBound time;		/* upper bounds up to here are old */
	Datum		number;			/* the same, as numeric */
} LaIntervalLimit;

static void find_limit(LaIntervalLimit *limit, const LaIntervalPolicy *policy,
					   const LaIntervalGrid *grid,
					   const LaIntervalPartitions *all, TimestampTz now);
static Datum to_numeric(char *text);
static bool is_old(const LaIntervalLimit *limit, const LaIntervalGrid *grid,
				   const LaIntervalPartition *partition);
static void drop(void *partition);
static void mark_detached(Oid partition);

/*
 * The partition that is being detached, or InvalidOid.
 */
Oid
la_interval_retire_pending(Oid parent)
{
	Relation	inherits = table_open(InheritsRelationId, AccessShareLock);
	Oid			pending = InvalidOid;
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

		if (row->inhdetachpending)
			pending = row->inhrelid;
	}
	systable_endscan(scan);
	table_close(inherits, AccessShareLock);
	return pending;
}

/*
 * The partitions that are old, the oldest first.  As the table's owner.
 */
List *
la_interval_retire_list(const LaIntervalPolicy *policy, TimestampTz now)
{
	List	   *old = NIL;
	Relation	parent;
	LaIntervalGrid *grid;
	LaIntervalPartitions *all;
	LaIntervalLimit limit;

	if (policy->retention == NULL)
		return NIL;
	parent = la_interval_grid_open(policy->parent);
	grid = la_interval_grid_make(policy, parent);
	all = la_interval_partitions_read(parent);
	find_limit(&limit, policy, grid, all, now);
	for (int i = 0; i < all->count; i++)
	{
		if (!is_old(&limit, grid, &all->partitions[i]))
			break;
		old = lappend_oid(old, all->partitions[i].relation);
	}
	table_close(parent, AccessShareLock);
	return old;
}

bool
la_interval_retire_is_old(const LaIntervalPolicy *policy, Oid partition,
						  TimestampTz now)
{
	return list_member_oid(la_interval_retire_list(policy, now), partition);
}

/*
 * Marks a partition as one that is being detached, if that can be done, in a
 * transaction that ends with this: whoever looks afterwards does not find it,
 * and nobody had to be waited for.  As the table's owner.
 */
LaIntervalRetired
la_interval_retire_begin(const LaIntervalPolicy *policy, Oid partition,
						 TimestampTz now)
{
	LockRelationOid(policy->parent, ShareUpdateExclusiveLock);
	LockRelationOid(partition, ShareUpdateExclusiveLock);
	if (!la_interval_retire_is_old(policy, partition, now))
		return LA_INTERVAL_KEPT;
	if (OidIsValid(get_default_partition_oid(policy->parent)) ||
		la_partition_way_is_referenced(partition))
		return LA_INTERVAL_TO_BE_LOCKED;
	if (OidIsValid(la_interval_retire_pending(policy->parent)))
		return LA_INTERVAL_BUSY;
	mark_detached(partition);
	CacheInvalidateRelcacheByRelid(policy->parent);
	return LA_INTERVAL_MARKED;
}

/*
 * For a partition that cannot be marked: an error where somebody is seen to use it, without
 * having anybody wait.
 */
void
la_interval_retire_check_free(Oid partition)
{
	if (!ConditionalLockRelationOid(partition, AccessExclusiveLock))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("it is in use")));
	UnlockRelationOid(partition, AccessExclusiveLock);
}

/*
 * Locks the table for such a partition.
 */
void
la_interval_retire_lock(Oid parent, Oid partition)
{
	Oid			default_partition;

	LockRelationOid(parent, AccessExclusiveLock);
	default_partition = get_default_partition_oid(parent);
	if (OidIsValid(default_partition))
		LockRelationOid(default_partition, AccessExclusiveLock);
	LockRelationOid(partition, AccessExclusiveLock);
}

/*
 * Detaches a partition that is marked, or was locked, and drops it where it is old and the
 * policy says so.  Of one that is marked whoever may still use it is waited for, without
 * a lock that others would meet.  As the table's owner.
 *
 * What keeps a partition from being dropped (a view, say) keeps one that was
 * not marked in the table.  One that was is no longer there for anybody, so it
 * is detached nevertheless, and the error is returned.
 */
ErrorData *
la_interval_retire_end(const LaIntervalPolicy *policy, Oid partition,
					   TimestampTz now)
{
	bool		is_marked = la_interval_retire_pending(policy->parent) == partition;
	bool		is_old = la_interval_retire_is_old(policy, partition, now);

	if (!is_marked && !is_old)
		return NULL;
	la_interval_owner_execute(psprintf("ALTER TABLE %s DETACH PARTITION %s%s",
									   la_interval_owner_name(policy->parent),
									   la_interval_owner_name(partition),
									   is_marked ? " FINALIZE" : ""));
	if (!policy->drops || !is_old)
		return NULL;
	if (is_marked)
		return la_interval_try(drop, &partition);
	drop(&partition);
	return NULL;
}

static void
drop(void *partition)
{
	Oid			relation = *(Oid *) partition;
	bool		is_foreign = get_rel_relkind(relation) == RELKIND_FOREIGN_TABLE;

	la_interval_owner_execute(psprintf("DROP %sTABLE %s",
									   is_foreign ? "FOREIGN " : "",
									   la_interval_owner_name(relation)));
}

/*
 * Mirrors MarkInheritDetached() in tablecmds.c.
 */
static void
mark_detached(Oid partition)
{
	Relation	inherits = table_open(InheritsRelationId, RowExclusiveLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

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
}

static void
find_limit(LaIntervalLimit *limit, const LaIntervalPolicy *policy,
		   const LaIntervalGrid *grid, const LaIntervalPartitions *all,
		   TimestampTz now)
{
	const LaIntervalPartition *used;

	memset(limit, 0, sizeof(*limit));
	limit->is_time = la_interval_grid_is_time(grid->key_type);
	if (limit->is_time)
	{
		Datum		retention = DirectFunctionCall3(interval_in,
													CStringGetDatum(policy->retention),
													ObjectIdGetDatum(InvalidOid),
													Int32GetDatum(-1));
		Datum		moment = DirectFunctionCall2(timestamptz_mi_interval,
												 TimestampTzGetDatum(now),
												 retention);

		limit->exists = true;
		limit->time = la_interval_grid_bound(grid,
											 la_partition_series_at_moment(grid->key_type,
																		   DatumGetTimestampTz(moment)));
		return;
	}
	used = la_interval_partitions_last_filled(all);
	if (used == NULL || !used->has_lower ||
		!la_interval_grid_is_finite(grid->key_type, &used->lower))
		return;
	limit->exists = true;
	limit->number = DirectFunctionCall2(numeric_sub,
										to_numeric(la_interval_grid_complete(grid->key_type, &used->lower).text),
										to_numeric(policy->retention));
}

static Datum
to_numeric(char *text)
{
	return DirectFunctionCall3(numeric_in, CStringGetDatum(text),
							   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
}

static bool
is_old(const LaIntervalLimit *limit, const LaIntervalGrid *grid,
	   const LaIntervalPartition *partition)
{
	if (!limit->exists || !partition->has_upper)
		return false;
	if (limit->is_time)
		return la_interval_grid_compare(grid, &partition->upper,
										&limit->time) <= 0;
	return DatumGetBool(DirectFunctionCall2(numeric_le,
											to_numeric(la_interval_grid_complete(grid->key_type, &partition->upper).text),
											limit->number));
}
