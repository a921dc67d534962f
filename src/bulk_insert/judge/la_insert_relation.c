/*-------------------------------------------------------------------------
 *
 * la_insert_relation.c
 *	  into which tables rows may be inserted in batches, and what they have called
 *
 * Asked for the table that a statement names, and for each partition that a row is routed to.
 *
 * What a table has called for a row is evaluated while the row waits (constraints, generated
 * columns, partition keys), or when the rows behind it are in the table, too: indexes, and
 * conditions of AFTER triggers.  To find it out takes longer than inserting a few rows, so it
 * is asked when there is a batch to collect.
 *
 * Reads RelationData of rel.h and ResultRelInfo of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/tupdesc.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_partitioned_table.h"
#include "catalog/pg_trigger.h"
#include "utils/builtins.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/reltrigger.h"
#include "utils/syscache.h"

#include "bulk_insert/judge/la_insert_classes.h"
#include "bulk_insert/judge/la_insert_relation.h"
#include "bulk_insert/judge/la_insert_search.h"

/*
 * Why inserts into a table of this storage are left to core.  A partitioned table has none.
 */
static LaReason
unsuitable_storage(Relation table)
{
	if (table->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		return LA_REASON_NONE;
	if (table->rd_rel->relkind != RELKIND_RELATION ||
		table->rd_tableam != GetHeapamTableAmRoutine())
		return LA_REASON_TABLE_AM;
	if (IsCatalogRelation(table) || RelationIsUsedAsCatalogTable(table))
		return LA_REASON_SYSTEM_CATALOG;
	if (RELATION_IS_OTHER_TEMP(table))
		return LA_REASON_OTHER_TEMP;
	return LA_REASON_NONE;
}

/*
 * Is a trigger called for a row before it is in the table?  Those of users that are called
 * afterwards get rows in the order in which they are inserted: among several partitions that is
 * not the order of the source.
 */
static bool
calls_row_trigger(const TriggerDesc *triggers, bool one_of_many)
{
	if (triggers == NULL)
		return false;
	for (int i = 0; one_of_many && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (TRIGGER_FOR_ROW(trigger->tgtype) &&
			TRIGGER_FOR_INSERT(trigger->tgtype) && !trigger->tgisinternal)
			return true;
	}
	return triggers->trig_insert_before_row || triggers->trig_insert_instead_row;
}

/*
 * Is one of these partitions partitioned again?
 */
bool
la_insert_has_subpartitions(PartitionDesc partitions)
{
	return partitions->nparts > 0 &&
		memchr(partitions->is_leaf, false, partitions->nparts) != NULL;
}

/*
 * Why inserts into this table, which a statement names, are left to core, whatever is inserted.
 * A trigger can get all rows as a table, which is filled as they are inserted.  Of partitions
 * that are partitioned again nothing is locked, and each has a key that may call functions; one that
 * is being detached counts: whether it does for core depends on the snapshot.
 */
LaReason
la_insert_unsuitable_table(Relation table, const TriggerDesc *triggers)
{
	bool		partitioned = table->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;
	LaReason	reason = unsuitable_storage(table);

	if (reason != LA_REASON_NONE)
		return reason;
	if (partitioned && la_insert_has_subpartitions(RelationGetPartitionDesc(table, false)))
		return LA_REASON_SUBPARTITIONS;
	if (triggers != NULL && triggers->trig_insert_new_table)
		return LA_REASON_TRANSITION_TABLE;
	return calls_row_trigger(triggers, partitioned) ?
		LA_REASON_ROW_TRIGGER : LA_REASON_NONE;
}

/*
 * The same of a partition that rows are routed to.  Triggers of statements are not called for
 * it, nor is there a table of its rows for them: relies on ExecSetupTransitionCaptureState() in
 * nodeModifyTable.c.
 */
LaReason
la_insert_unsuitable_partition(const ResultRelInfo *partition, bool is_copy)
{
	LaReason	reason = unsuitable_storage(partition->ri_RelationDesc);

	if (reason == LA_REASON_NONE && calls_row_trigger(partition->ri_TrigDesc, !is_copy))
		reason = LA_REASON_ROW_TRIGGER;
	return reason;
}

/*
 * LaInsertLook: at expressions that are stored with a table: CHECK constraints and generated
 * columns.  What a constraint evaluates of virtual columns is no different.  Texts are read
 * first: the relation cache may free them when catalogs are looked at.
 */
static int
look_at_stored(void *arg)
{
	TupleDesc	descriptor = RelationGetDescr((Relation) arg);
	const TupleConstr *constraints = descriptor->constr;
	LaInsertSearch search = {.of_row = true};
	List	   *expressions = NIL;

	for (int i = 0; constraints != NULL && i < constraints->num_check; i++)
	{
		if (constraints->check[i].ccenforced)
			expressions = lappend(expressions, stringToNode(constraints->check[i].ccbin));
	}
	for (int i = 0; constraints != NULL && i < constraints->num_defval; i++)
	{
		const AttrDefault *value = &constraints->defval[i];

		if (TupleDescAttr(descriptor, value->adnum - 1)->attgenerated != '\0')
			expressions = lappend(expressions, stringToNode(value->adbin));
	}
	return la_insert_search((Node *) expressions, &search) ?
		LA_CALLS_SEEING : la_insert_search_result(&search);
}

/*
 * All foreign tables, sorted.
 */
static List *
foreign_tables(void)
{
	Relation	relation = table_open(ForeignTableRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(relation, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;
	List	   *tables = NIL;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		tables = lappend_oid(tables, ((Form_pg_foreign_table) GETSTRUCT(tuple))->ftrelid);
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	list_sort(tables, list_oid_cmp);
	return tables;
}

/*
 * LaInsertLook: at the key of a partitioned table.  A table that is gone, and an operator class of
 * a user, are in doubt.  The expressions of a key must be immutable, but core takes a cast to a
 * domain for that, whatever the domain's CHECK calls.
 */
static int
look_at_key(void *arg)
{
	LaInsertSearch search = {0};
	Oid			table = RelationGetRelid((Relation) arg);
	HeapTuple	tuple = SearchSysCache1(PARTRELID, ObjectIdGetDatum(table));
	oidvector  *classes;
	Datum		expressions;
	bool		is_null;
	bool		found = false;

	if (!HeapTupleIsValid(tuple))
		return LA_CALLS_SEEING;
	classes = (oidvector *)
		DatumGetPointer(SysCacheGetAttrNotNull(PARTRELID, tuple,
											   Anum_pg_partitioned_table_partclass));
	for (int i = 0; i < classes->dim1; i++)
		found |= classes->values[i] >= FirstUnpinnedObjectId;
	expressions = SysCacheGetAttr(PARTRELID, tuple,
								  Anum_pg_partitioned_table_partexprs, &is_null);
	if (!found && !is_null)
		found = la_insert_search(stringToNode(TextDatumGetCString(expressions)), &search);
	ReleaseSysCache(tuple);
	return found ? LA_CALLS_SEEING : la_insert_search_result(&search);
}

/*
 * LaInsertLook: is one of the partitions a foreign table?  The tables of that kind are listed
 * once, however many there are elsewhere: there are mostly fewer than partitions.
 */
static int
look_for_foreign(void *arg)
{
	PartitionDesc partitions = RelationGetPartitionDesc(arg, false);
	List	   *foreign = foreign_tables();
	bool		found = false;

	for (int i = 0; foreign != NIL && i < partitions->nparts; i++)
		found |= bsearch(&partitions->oids[i], foreign->elements, list_length(foreign),
						 sizeof(ListCell), oid_cmp) != NULL;
	return found;
}

bool
la_insert_has_foreign_partition(Relation table)
{
	return la_insert_known(LA_INSERT_FOREIGN, RelationGetRelid(table), look_for_foreign, table);
}

/*
 * Functions of the operator classes of an index.  The relation cache has for each key column as
 * many as the access method may call, InvalidOid where the operator class has none.
 */
static bool
search_classes(Relation index, int keys, LaInsertSearch *search)
{
	for (int i = 0; i < keys * index->rd_indam->amsupport; i++)
	{
		Oid			function = index->rd_support[i];

		if (function >= FirstUnpinnedObjectId &&
			la_insert_function_serves(function, index->rd_amhandler))
			search->functions = list_append_unique_oid(search->functions, function);
		else if (la_insert_search_function(search, function))
			return true;
	}
	return false;
}

/*
 * Expressions, predicates and operator classes of indexes, and operators of exclusion
 * constraints.  Only of those that the insert has opened: others may have been made since, and
 * are not locked.  A COPY opens those of a partitioned table.
 *
 * An index is searched anew each time: what it has called is in memory with it.
 */
static bool
search_indexes(const ResultRelInfo *target, LaInsertSearch *search)
{
	for (int i = 0; i < target->ri_NumIndices; i++)
	{
		const IndexInfo *info = target->ri_IndexRelationInfo[i];
		Relation	index = target->ri_IndexRelationDescs[i];
		int			keys = IndexRelationGetNumberOfKeyAttributes(index);

		if (la_insert_search((Node *) info->ii_Expressions, search) ||
			la_insert_search((Node *) info->ii_Predicate, search) ||
			search_classes(index, keys, search))
			return true;
		for (int j = 0; info->ii_ExclusionProcs != NULL && j < keys; j++)
		{
			if (la_insert_search_function(search, info->ii_ExclusionProcs[j]))
				return true;
		}
	}
	return false;
}

/*
 * Conditions of triggers, of the copy that the insert has.  That can be older than the table:
 * a trigger can be made while a statement inserts.  So what is found out is not kept.
 */
static bool
search_conditions(const ResultRelInfo *target, LaInsertSearch *search)
{
	const TriggerDesc *triggers = target->ri_TrigDesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (trigger->tgqual != NULL && TRIGGER_FOR_ROW(trigger->tgtype) &&
			TRIGGER_FOR_INSERT(trigger->tgtype) &&
			la_insert_search(stringToNode(trigger->tgqual), search))
			return true;
	}
	return false;
}

/*
 * What this table has called for a row that is inserted, and what core may call for any.  The
 * bounds of a partition are checked unless the row has been routed there.
 */
LaInsertCalls
la_insert_calls(const ResultRelInfo *target)
{
	Relation	table = target->ri_RelationDesc;
	LaInsertSearch search = {0};
	LaInsertSearch deferred = {.of_row = true,.deferred = true};
	LaInsertCalls stored = la_insert_known(LA_INSERT_STORED, RelationGetRelid(table),
										   look_at_stored, table);
	LaInsertCalls key = table->rd_rel->relkind != RELKIND_PARTITIONED_TABLE ? LA_CALLS_CORE :
		la_insert_known(LA_INSERT_KEY, RelationGetRelid(table), look_at_key, table);

	if (la_insert_classes_see_rows() || stored == LA_CALLS_SEEING || key == LA_CALLS_SEEING ||
		search_indexes(target, &deferred) || search_conditions(target, &deferred) ||
		(table->rd_rel->relispartition && target->ri_RootResultRelInfo == NULL &&
		 la_insert_search((Node *) RelationGetPartitionQual(table), &search)))
		return LA_CALLS_SEEING;
	return Max(Max(stored, key),
			   Max(la_insert_search_result(&search),
				   la_insert_search_result(&deferred)));
}
