/*-------------------------------------------------------------------------
 *
 * la_interval_partitions.c
 *	  the partitions that a table has, by their bounds
 *
 * Partitions that somebody made by hand need not lie on the grid.  Where one
 * has a part of a range of the grid, the rest of the range is still to be
 * created, so that no value is without a partition because of it.
 *
 * One that is being detached is still in the way of others.
 *
 * Reads PartitionBoundInfoData of partbounds.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "executor/tuptable.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "storage/bufmgr.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "intervals/la_interval_partitions.h"

/* Pages in which a row is looked for near another one.  Arbitrary. */
#define PAGES_NEAR 32

/*
 * Whether the bound is a value, which is put where the caller says.  Of texts
 * only few are needed.
 */
static bool
get_bound(Relation parent, int i, LaIntervalBound *bound)
{
	PartitionBoundInfo bounds = RelationGetPartitionDesc(parent, false)->boundinfo;

	if (bounds->kind[i][0] != PARTITION_RANGE_DATUM_VALUE)
		return false;
	bound->value = bounds->datums[i][0];
	return true;
}

/*
 * The partitions of a parent that la_interval_grid_open() has opened.
 */
LaIntervalPartitions *
la_interval_partitions_read(Relation parent)
{
	LaIntervalPartitions *all = palloc0_object(LaIntervalPartitions);
	PartitionDesc descriptor = RelationGetPartitionDesc(parent, false);
	PartitionBoundInfo bounds = descriptor->boundinfo;

	all->default_partition = get_default_oid_from_partdesc(descriptor);
	all->partitions = palloc0_array(LaIntervalPartition,
									Max(descriptor->nparts, 1));
	/* Beside each upper bound is the index of its partition. */
	for (int i = 1; bounds != NULL && i < bounds->ndatums; i++)
	{
		LaIntervalPartition *partition = &all->partitions[all->count];

		if (bounds->indexes[i] < 0)
			continue;
		partition->relation = descriptor->oids[bounds->indexes[i]];
		partition->has_lower = get_bound(parent, i - 1, &partition->lower);
		partition->has_upper = get_bound(parent, i, &partition->upper);
		all->count++;
	}
	return all;
}

static bool
get_own_bound(List *datums, LaIntervalBound *bound)
{
	PartitionRangeDatum *datum = linitial_node(PartitionRangeDatum, datums);

	if (datum->kind != PARTITION_RANGE_DATUM_VALUE)
		return false;
	bound->value = castNode(Const, datum->value)->constvalue;
	return true;
}

/*
 * One partition of a parent, also of one that is being detached, by its own row of pg_class:
 * the bounds of all are sorted anew whenever one has changed.  False where it is none, or the
 * default partition.
 */
bool
la_interval_partitions_read_one(Oid parent, Oid relation,
								LaIntervalPartition *partition)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	PartitionBoundSpec *spec = NULL;
	bool		is_null = true;

	memset(partition, 0, sizeof(*partition));
	partition->relation = relation;
	if (!HeapTupleIsValid(tuple))
		return false;
	if (((Form_pg_class) GETSTRUCT(tuple))->relispartition &&
		get_partition_parent(relation, true) == parent)
	{
		Datum		bound = SysCacheGetAttr(RELOID, tuple,
											Anum_pg_class_relpartbound, &is_null);

		if (!is_null)
			spec = castNode(PartitionBoundSpec,
							stringToNode(TextDatumGetCString(bound)));
	}
	ReleaseSysCache(tuple);
	if (spec == NULL || spec->is_default ||
		spec->strategy != PARTITION_STRATEGY_RANGE)
		return false;
	partition->has_lower = get_own_bound(spec->lowerdatums, &partition->lower);
	partition->has_upper = get_own_bound(spec->upperdatums, &partition->upper);
	return true;
}

/*
 * Where the first partition is that ends after the value, or would be.
 */
int
la_interval_partitions_search(const LaIntervalPartitions *all, const LaIntervalGrid *grid,
							  const LaIntervalBound *value)
{
	int			low = 0;
	int			high = all->count;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;
		const LaIntervalPartition *partition = &all->partitions[middle];

		if (partition->has_upper &&
			la_interval_grid_compare(grid, &partition->upper, value) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * The partition that has this value.  If there is none the range, which has
 * the value, too, is made as short as its neighbours are near, and NULL is
 * returned.
 */
const LaIntervalPartition *
la_interval_partitions_find(const LaIntervalPartitions *all,
							const LaIntervalGrid *grid,
							const LaIntervalBound *value,
							LaIntervalRange *range)
{
	int			low = la_interval_partitions_search(all, grid, value);

	if (low < all->count)
	{
		const LaIntervalPartition *partition = &all->partitions[low];

		if (!partition->has_lower ||
			la_interval_grid_compare(grid, &partition->lower, value) <= 0)
			return partition;
		if (la_interval_grid_compare(grid, &partition->lower, &range->upper) < 0)
		{
			range->upper = la_interval_grid_complete(grid->key_type, &partition->lower);
			range->is_whole = false;
		}
	}
	if (low > 0 &&
		la_interval_grid_compare(grid, &all->partitions[low - 1].upper,
								 &range->lower) > 0)
	{
		range->lower = la_interval_grid_complete(grid->key_type, &all->partitions[low - 1].upper);
		range->is_whole = false;
	}
	return NULL;
}

/*
 * Does something hold for a partition, or for one of its own partitions?  Of a foreign table
 * and of one that somebody has locked the caller says.
 */
static bool
any_leaf(Oid relation, bool (*holds) (Relation leaf, LaIntervalSeen *row), LaIntervalSeen *row,
		 bool foreign, bool locked)
{
	bool		found = false;

	foreach_oid(leaf, find_all_inheritors(relation, NoLock, NULL))
	{
		Relation	opened;

		if (!ConditionalLockRelationOid(leaf, AccessShareLock))
		{
			if (locked)
				return true;
			continue;
		}
		opened = try_relation_open(leaf, NoLock);
		if (opened == NULL)
		{
			UnlockRelationOid(leaf, AccessShareLock);
			continue;
		}
		if (opened->rd_rel->relkind == RELKIND_FOREIGN_TABLE)
			found = foreign;
		else if (RELKIND_HAS_STORAGE(opened->rd_rel->relkind))
			found = holds(opened, row);
		relation_close(opened, AccessShareLock);
		if (found)
			return true;
	}
	return false;
}

static bool
has_pages(Relation leaf, LaIntervalSeen *row)
{
	(void) row;
	return RelationGetNumberOfBlocks(leaf) > 0;
}

/*
 * Reads as much as there is before the first row, which can be all.
 */
static bool
has_row(Relation leaf, LaIntervalSeen *row)
{
	TupleTableSlot *slot = table_slot_create(leaf, NULL);
	TableScanDesc scan = table_beginscan(leaf, GetActiveSnapshot(), 0, NULL);
	bool		found = table_scan_getnextslot(scan, ForwardScanDirection, slot);

	row->table = RelationGetRelid(leaf);
	if (found)
		row->place = slot->tts_tid;
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	return found;
}

/*
 * The last partition that has a row, for the active snapshot, or NULL; then the row.
 * Partitions are dropped because of it, so a foreign table counts as empty, and one that is
 * being detached, in which nobody finds a row.
 */
const LaIntervalPartition *
la_interval_partitions_last_filled(const LaIntervalPartitions *all, LaIntervalSeen *row)
{
	for (int i = all->count - 1; i >= 0; i--)
	{
		const LaIntervalPartition *partition = &all->partitions[i];

		if (any_leaf(partition->relation, has_row, row, false, false) &&
			!PartitionHasPendingDetach(partition->relation))
			return partition;
	}
	return NULL;
}

/*
 * In a queue the first row is the next one that goes, and others come after it.  Of another
 * access method nobody knows whether it finds rows by their place.
 */
static bool
has_row_near(Relation leaf, LaIntervalSeen *row)
{
	TupleTableSlot *slot;
	TableScanDesc scan;
	ItemPointerData first;
	ItemPointerData last;
	bool		found;

	if (RelationGetRelid(leaf) != row->table)
		return false;
	if (leaf->rd_tableam != GetHeapamTableAmRoutine())
		return has_row(leaf, row);
	ItemPointerSet(&first, ItemPointerGetBlockNumber(&row->place), FirstOffsetNumber);
	ItemPointerSet(&last, Min(ItemPointerGetBlockNumber(&row->place), MaxBlockNumber - PAGES_NEAR) + PAGES_NEAR - 1,
				   MaxOffsetNumber);
	slot = table_slot_create(leaf, NULL);
	scan = table_beginscan_tidrange(leaf, GetActiveSnapshot(), &first, &last);
	found = table_scan_getnextslot_tidrange(scan, ForwardScanDirection, slot);
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	return found;
}

/*
 * Whether a partition has a row for the active snapshot, too, near the place in which one was
 * found: a look at some pages, however many there are.
 */
bool
la_interval_partitions_has_still(Oid relation, const LaIntervalSeen *row)
{
	LaIntervalSeen copy = *row;

	return any_leaf(relation, has_row_near, &copy, false, false) &&
		!PartitionHasPendingDetach(relation);
}

/*
 * Whether somebody has put rows into a partition: a look at the length of its
 * files, at no row.  A foreign table counts as used.
 */
bool
la_interval_partitions_is_used(Oid relation)
{
	return any_leaf(relation, has_pages, NULL, true, false);
}

/*
 * The last partition that is in use, or NULL, and the last one that may be: another one where
 * somebody has locked that.
 */
const LaIntervalPartition *
la_interval_partitions_last_used(const LaIntervalPartitions *all,
								 const LaIntervalPartition **maybe)
{
	*maybe = NULL;
	for (int i = all->count - 1; i >= 0; i--)
	{
		Oid			relation = all->partitions[i].relation;

		if (!any_leaf(relation, has_pages, NULL, true, true))
			continue;
		if (*maybe == NULL)
			*maybe = &all->partitions[i];
		if (la_interval_partitions_is_used(relation))
			return &all->partitions[i];
	}
	return NULL;
}

/*
 * Whether there is a gap between a partition and a range after it.
 */
static bool
is_behind_gap(const LaIntervalPartitions *all, const LaIntervalGrid *grid,
			  const LaIntervalPartition *last, const LaIntervalRange *range)
{
	const LaIntervalPartition *end = all->partitions +
		la_interval_partitions_search(all, grid, &range->lower);

	for (; last < end; last++)
	{
		const LaIntervalBound *next = last + 1 < end ? &last[1].lower : &range->lower;

		if (la_interval_grid_compare(grid, &last->upper, next) != 0)
			return true;
	}
	return false;
}

/*
 * Where a range is that no partition has, from the last partition in use and the last one that
 * may be, as la_interval_partitions_last_used() tells of them.
 */
LaIntervalPlace
la_interval_partitions_place(const LaIntervalPartitions *all, const LaIntervalGrid *grid,
							 const LaIntervalRange *range, const LaIntervalPartition *last,
							 const LaIntervalPartition *maybe)
{
	if (last != NULL && !is_behind_gap(all, grid, last, range))
		return LA_PLACE_FOLLOWS;
	return last != NULL && last == maybe ? LA_PLACE_BEHIND_GAP : LA_PLACE_UNKNOWN;
}
