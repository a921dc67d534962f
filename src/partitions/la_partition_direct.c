/*-------------------------------------------------------------------------
 *
 * la_partition_direct.c
 *	  partitions created without a statement
 *
 * Core's functions are called in the order in which CREATE TABLE ... PARTITION
 * OF calls them, with the same arguments.  Mirrors DefineRelation() in
 * tablecmds.c; what is before and after the parent's part in it is that of any
 * table (la_partition_table.c).  Left out is what the parent's other partitions
 * decide, which was checked before (la_partition_plan.c), and telling each time
 * that the parent has changed, which would have its descriptor built anew each
 * time: that is done at the end.
 *
 * A partition that is attached under a ShareUpdateExclusiveLock is what ALTER
 * TABLE ... ATTACH PARTITION makes, too: statements that run see it or not,
 * and the next ones do.  Until the end this session does not see it, either.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/attmap.h"
#include "access/genam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "parser/parse_utilcmd.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "la_compat.h"
#include "partitions/la_partition_direct.h"
#include "partitions/la_partition_table.h"

/* What all partitions have in common. */
struct LaPartitionDirect
{
	Oid			parent;
	LaPartitionTable *table;
	List	   *indexes;		/* of the parent */
};

#ifdef LA_PARTITIONS_PORTED

/*
 * Checks and reads what all partitions have in common.
 */
LaPartitionDirect *
la_partition_direct_begin(const LaPartitionRequest *request, Relation parent)
{
	LaPartitionDirect *direct = palloc_object(LaPartitionDirect);

	direct->parent = RelationGetRelid(parent);
	direct->table = la_partition_table_read(request, parent, true);
	direct->indexes = RelationGetIndexList(parent);
	return direct;
}

/*
 * Mirrors StorePartitionBound() in heap.c, but for what it tells about the
 * parent.
 */
static void
store_bound(Oid partition, PartitionBoundSpec *bound)
{
	Relation	classes = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	old = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(partition));
	HeapTuple	new;
	Datum		values[Natts_pg_class] = {0};
	bool		nulls[Natts_pg_class] = {0};
	bool		replaced[Natts_pg_class] = {0};

	if (!HeapTupleIsValid(old))
		elog(ERROR, "cache lookup failed for relation %u", partition);
	values[Anum_pg_class_relpartbound - 1] =
		CStringGetTextDatum(nodeToString(bound));
	replaced[Anum_pg_class_relpartbound - 1] = true;
	new = heap_modify_tuple(old, RelationGetDescr(classes), values, nulls,
							replaced);
	((Form_pg_class) GETSTRUCT(new))->relispartition = true;
	CatalogTupleUpdate(classes, &new->t_self, new);
	table_close(classes, RowExclusiveLock);
}

/*
 * Mirrors StoreCatalogInheritance1() in tablecmds.c, but for what it tells
 * about the parent.
 */
static void
store_inheritance(Oid partition, Oid parent)
{
	ObjectAddress child;
	ObjectAddress referenced;

	StoreSingleInheritance(partition, parent, 1);
	ObjectAddressSet(child, RelationRelationId, partition);
	ObjectAddressSet(referenced, RelationRelationId, parent);
	recordDependencyOn(&child, &referenced, DEPENDENCY_AUTO);
	InvokeObjectPostAlterHookArg(InheritsRelationId, partition, 0, parent,
								 false);
}

/*
 * An index for each of the parent's.  Mirrors DefineRelation() in tablecmds.c.
 */
static void
clone_indexes(const LaPartitionDirect *direct, Relation partition)
{
	Relation	parent = table_open(direct->parent, NoLock);

	foreach_oid(cloned, direct->indexes)
	{
		Relation	index = index_open(cloned, AccessShareLock);
		AttrMap    *map = build_attrmap_by_name(RelationGetDescr(partition),
												RelationGetDescr(parent), false);
		Oid			constraint;
		IndexStmt  *statement = generateClonedIndexStmt(NULL, index, map,
														&constraint);

		DefineIndex(RelationGetRelid(partition), statement, InvalidOid, cloned,
					constraint, -1, false, false, false, false, false);
		index_close(index, AccessShareLock);
	}
	table_close(parent, NoLock);
}

/*
 * Creates one partition, in the current memory context, of which nothing is
 * needed afterwards.
 */
void
la_partition_direct_create(const LaPartitionDirect *direct,
						   const LaPlannedPartition *planned)
{
	Relation	partition = la_partition_table_begin(direct->table,
													 planned->name);

	store_bound(RelationGetRelid(partition), planned->bound);
	store_inheritance(RelationGetRelid(partition), direct->parent);
	CommandCounterIncrement();
	clone_indexes(direct, partition);
	la_partition_table_end(direct->table, partition);
}

/*
 * Makes the partitions known: to this session by the command counter, to the
 * others when the transaction commits.  Relies on SetRelationHasSubclass() in
 * tablecmds.c, which has the parent's relcache entry renewed in any case.
 */
void
la_partition_direct_end(const LaPartitionDirect *direct)
{
	SetRelationHasSubclass(direct->parent, true);
	CommandCounterIncrement();
}

#endif							/* LA_PARTITIONS_PORTED */
