/*-------------------------------------------------------------------------
 *
 * la_partition_references.c
 *	  foreign keys of a table, and to it
 *
 * A new partition gets the foreign keys of its parent, and is referenced by
 * those to its parent.  Core takes a ShareRowExclusiveLock on the tables at the
 * other ends until the transaction ends.  Mirrors CloneFkReferencing() and
 * CloneFkReferenced() in tablecmds.c.
 *
 * So whoever has written into such a table in its transaction, and waited for a
 * partition that another process creates, would wait for a process that waits
 * for it: tables with foreign keys get no partition on insert.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "partitions/la_partition_references.h"

/*
 * Foreign keys with a table in this column, or the tables at their other ends.
 */
static List *
read_references(Oid table, AttrNumber column, Oid index, bool keys)
{
	Relation	constraints = table_open(ConstraintRelationId, AccessShareLock);
	List	   *others = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(table));
	scan = systable_beginscan(constraints, index, OidIsValid(index), NULL, 1,
							  &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_constraint constraint = (Form_pg_constraint) GETSTRUCT(tuple);
		Oid			other = column == Anum_pg_constraint_conrelid ?
			constraint->confrelid : constraint->conrelid;

		if (constraint->contype == CONSTRAINT_FOREIGN)
			others = list_append_unique_oid(others, keys ? constraint->oid : other);
	}
	systable_endscan(scan);
	table_close(constraints, AccessShareLock);
	return others;
}

/*
 * The tables that foreign keys of this one reference; of partitioned ones the
 * partitions, too.
 */
List *
la_partition_references_of(Oid table)
{
	return read_references(table, Anum_pg_constraint_conrelid,
						   ConstraintRelidTypidNameIndexId, false);
}

/*
 * A table that only inherits from another is no partition of it.
 */
static bool
is_below_one_of(Oid table, const List *tables)
{
	if (!get_rel_relispartition(table))
		return false;
	foreach_oid(ancestor, get_partition_ancestors(table))
	{
		if (list_member_oid(tables, ancestor))
			return true;
	}
	return false;
}

/*
 * Those of the tables that are no partitions of others among them.
 */
static List *
roots_among(const List *tables)
{
	List	   *roots = NIL;

	foreach_oid(table, tables)
	{
		if (!is_below_one_of(table, tables))
			roots = lappend_oid(roots, table);
	}
	return roots;
}

/*
 * The tables that core locks because this one references them, in the order in which it and
 * writers do: a partitioned one before its partitions.  Keys of a partition have no rows for
 * those, and rows are in the order of names.  Some may be gone by now, whose locks nobody meets.
 * Relies on CloneFkReferencing() and addFkRecurseReferenced() in tablecmds.c.
 */
List *
la_partition_references_locked(Oid table)
{
	List	   *locked = NIL;

	foreach_oid(other, roots_among(la_partition_references_of(table)))
	{
		locked = list_append_unique_oid(locked, other);
		if (get_rel_relkind(other) == RELKIND_PARTITIONED_TABLE)
			locked = list_concat_unique_oid(locked, find_all_inheritors(other, NoLock, NULL));
	}
	return locked;
}

/*
 * The tables that core locks because they reference this one: no partitions of them.  Relies on
 * CloneFkReferenced() and DetachPartitionFinalize() in tablecmds.c.
 */
List *
la_partition_references_locked_to(Oid table)
{
	return roots_among(la_partition_references_to(table));
}

/*
 * Whether a foreign key can reference the table.
 */
static bool
can_be_referenced(Oid table)
{
	Relation	indexes = table_open(IndexRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	ScanKeyInit(&key, Anum_pg_index_indrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(table));
	scan = systable_beginscan(indexes, IndexIndrelidIndexId, true, NULL, 1,
							  &key);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
		found = ((Form_pg_index) GETSTRUCT(tuple))->indisunique;
	systable_endscan(scan);
	table_close(indexes, AccessShareLock);
	return found;
}

/*
 * There is no index for these, so that of a table which can be referenced the catalog is read.
 */
static List *
read_references_to(Oid table, bool keys)
{
	if (!can_be_referenced(table))
		return NIL;
	return read_references(table, Anum_pg_constraint_confrelid, InvalidOid, keys);
}

/*
 * The tables that have foreign keys to this one; of partitioned ones the
 * partitions, too.
 */
List *
la_partition_references_to(Oid table)
{
	return read_references_to(table, false);
}

/*
 * These foreign keys.
 */
List *
la_partition_references_keys_to(Oid table)
{
	return read_references_to(table, true);
}

/*
 * Whether a foreign key of the table references it, or a table of which it is a partition:
 * core locks all partitions of that, and so this one.
 */
bool
la_partition_references_itself(Oid table)
{
	List	   *tables = lcons_oid(table, get_partition_ancestors(table));

	foreach_oid(other, la_partition_references_of(table))
	{
		if (list_member_oid(tables, other))
			return true;
	}
	return false;
}
