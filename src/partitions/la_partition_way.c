/*-------------------------------------------------------------------------
 *
 * la_partition_way.c
 *	  which way partitions can be created, and whose functions run meanwhile
 *
 * Direct: without a statement, by the functions that core's would call.  Not
 * where core would call functions that nobody else can: those that clone row
 * triggers and foreign keys, and that make a table partitioned.
 *
 * Attached: as a table of its own, which core's ALTER TABLE ... ATTACH PARTITION
 * makes a partition.  Where nothing but row triggers and foreign keys is to be
 * cloned, and only if asked for: it is no faster than the next one, and leaves
 * others alone.
 *
 * Native: by core's statement, one each, as a user would.  It is the way out
 * of every doubt, such as a function of an event trigger, which could look at
 * the parent, put rows into it, or change its partitions.
 *
 * The verdict needs no lock, so it says which lock to take, and is asked for
 * again when that is held.  Whether functions of users run is looked at under it
 * (la_partition_create.c), but where others shall go on writing, beforehand.
 *
 * Functions of users could do that as well, whatever they are declared as, where they run while
 * partitions are created.  Core calls those of the key's type and operator class for a
 * bound, and those in expressions of the key and of indexes when it evaluates what is constant
 * in them.  Defaults and checks are copied as they are, but ATTACH PARTITION plans the checks of
 * the table that it attaches, to see whether they imply its bounds.
 *
 * Relies on transformPartitionBound() in parse_utilcmd.c, check_new_partition_bound() in
 * partbounds.c, ComputePartitionAttrs() in tablecmds.c, DefineIndex() in indexcmds.c,
 * RelationGetIndexExpressions() in relcache.c, ConstraintImpliedByRelConstraint() in tablecmds.c
 * and simplify_function() in clauses.c.
 *
 * Reads PartitionKeyData of partcache.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_index.h"
#include "catalog/pg_language.h"
#include "catalog/pg_partitioned_table.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "commands/event_trigger.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/evtcache.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "la_compat.h"
#include "la_guc.h"
#include "la_plain.h"
#include "partitions/la_partition_references.h"
#include "partitions/la_partition_way.h"

static const char *const way_names[] = {
	[LA_PARTITION_AUTO] = "auto",
	[LA_PARTITION_DIRECT] = "direct",
	[LA_PARTITION_ATTACHED] = "attached",
	[LA_PARTITION_NATIVE] = "native",
};

/*
 * Whether partitions get it.  Mirrors CloneRowTriggersToPartition() in tablecmds.c.
 */
static bool
is_cloned(const FormData_pg_trigger *trigger)
{
	return TRIGGER_FOR_ROW(trigger->tgtype) && !trigger->tgisinternal;
}

/*
 * Those of core are for rows.  Another extension keeps the table, such as Citus, whose shards
 * get a partition when its statement is seen.
 */
static bool
is_of_extension(const FormData_pg_trigger *trigger)
{
	return !TRIGGER_FOR_ROW(trigger->tgtype) && trigger->tgisinternal;
}

static bool
has_trigger(Oid table, bool (*is_one) (const FormData_pg_trigger *))
{
	Relation	triggers = table_open(TriggerRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	ScanKeyInit(&key, Anum_pg_trigger_tgrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(table));
	scan = systable_beginscan(triggers, TriggerRelidNameIndexId, true, NULL, 1,
							  &key);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
		found = is_one((Form_pg_trigger) GETSTRUCT(tuple));
	systable_endscan(scan);
	table_close(triggers, AccessShareLock);
	return found;
}

static bool
is_users(Oid function)
{
	return function >= FirstUnpinnedObjectId;
}

/*
 * Is a function written in SQL, so that its calls can be replaced?
 */
static bool
is_sql(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool		found;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	found = ((Form_pg_proc) GETSTRUCT(tuple))->prolang == SQLlanguageId;
	ReleaseSysCache(tuple);
	return found;
}

/*
 * check_functions_in_node callback: can planning an expression call this function, which the
 * node calls?
 */
static bool
may_be_called(Oid function, void *node)
{
	return is_users(function) &&
		(!contain_var_clause(node) || OidIsValid(get_func_support(function)) ||
		 is_sql(function));
}

/*
 * expression_tree_walker callback.  A function that is given a column is called for rows only,
 * unless its call is replaced by what is in it.
 */
static bool
expression_calls(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if ((IsA(node, CoerceToDomain) && !contain_var_clause(node)) ||
		check_functions_in_node(node, may_be_called, node))
		return true;
	return expression_tree_walker(node, expression_calls, context);
}

/*
 * Do functions of users run when a table with the checks of this one is attached as a partition?
 */
static bool
checks_call_functions(Oid table)
{
	Relation	parent = table_open(table, AccessShareLock);
	const TupleConstr *constraints = RelationGetDescr(parent)->constr;
	bool		found = false;

	for (int i = 0; constraints != NULL && i < constraints->num_check; i++)
		found = found ||
			expression_calls(stringToNode(constraints->check[i].ccbin), NULL);
	table_close(parent, AccessShareLock);
	return found;
}

/*
 * Reasons are texts in the result, described in docs/partitions.md.
 */
static LaPartitionWay
fastest_way(const LaPartitionRequest *request, const char **reason)
{
	bool		calls_functions;

	*reason = NULL;
#ifndef LA_PARTITIONS_PORTED
	*reason = "server version";
	return LA_PARTITION_NATIVE;
#endif
	if (!la_enabled || la_disable)
	{
		*reason = la_disable ? "pg_lookahead.disable" : "pg_lookahead.enabled";
		return LA_PARTITION_NATIVE;
	}
	if (la_partition_fires_event_trigger(CMDTAG_CREATE_TABLE))
	{
		*reason = "event trigger";
		return LA_PARTITION_NATIVE;
	}
	if (request->subpartitions != NULL)
	{
		*reason = "subpartitions";
		return LA_PARTITION_NATIVE;
	}
	if (has_trigger(request->parent, is_of_extension))
	{
		*reason = "other extension";
		return LA_PARTITION_NATIVE;
	}
	if (has_trigger(request->parent, is_cloned))
		*reason = "row triggers";
	else if (la_partition_references_of(request->parent) != NIL ||
			 la_partition_references_to(request->parent) != NIL)
		*reason = "foreign keys";
	else
		return LA_PARTITION_DIRECT;

	/*
	 * A table that references itself would get a ShareRowExclusiveLock from
	 * ATTACH PARTITION.
	 */
	calls_functions = checks_call_functions(request->parent);
	if (calls_functions)
		*reason = "functions of users";
	return calls_functions || la_partition_references_itself(request->parent) ?
		LA_PARTITION_NATIVE : LA_PARTITION_ATTACHED;
}

/*
 * The way, and why it is not the direct one, or NULL.  Refuses a way that was
 * asked for and is not possible.
 */
LaPartitionWay
la_partition_way(const LaPartitionRequest *request, const char **reason)
{
	LaPartitionWay fastest = fastest_way(request, reason);

	if (request->way == LA_PARTITION_AUTO)
		return fastest == LA_PARTITION_DIRECT ? fastest : LA_PARTITION_NATIVE;
	if (request->way < fastest)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("partitions of this table cannot be created in the way \"%s\"",
						la_partition_way_name(request->way)),
				 errdetail("The reason is: %s.", *reason),
				 errhint("The way \"auto\" takes the fastest that is possible.")));
	if (request->way > fastest)
		*reason = "asked for";
	return request->way;
}

/*
 * The fastest way during which others may go on writing into the table, or
 * LA_PARTITION_AUTO and why there is none.
 */
LaPartitionWay
la_partition_way_beside_writers(const LaPartitionRequest *request,
								const char **reason)
{
	LaPartitionWay way = fastest_way(request, reason);

	if (way <= LA_PARTITION_ATTACHED &&
		la_partition_calls_functions(request->parent))
	{
		*reason = "functions of users";
		return LA_PARTITION_AUTO;
	}
	return way <= LA_PARTITION_ATTACHED ? way : LA_PARTITION_AUTO;
}

const char *
la_partition_way_name(LaPartitionWay way)
{
	return way_names[way];
}

LaPartitionWay
la_partition_way_by_name(const char *name)
{
	for (int way = 0; way < lengthof(way_names); way++)
	{
		if (strcmp(name, way_names[way]) == 0)
			return way;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown way to create partitions: \"%s\"", name),
			 errhint("Ways are \"auto\", \"direct\", \"attached\" and \"native\".")));
}

/*
 * Whether the command would fire a trigger at this event.  Mirrors
 * EventTriggerDDLCommandStart(), EventTriggerCommonSetup() and
 * filter_event_trigger() in event_trigger.c.
 */
static bool
fires_event_trigger(EventTriggerEvent event, CommandTag tag)
{
	bool		replica = SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;

	if (!IsUnderPostmaster || !event_triggers)
		return false;
	foreach_ptr(EventTriggerCacheItem, item, EventCacheLookup(event))
	{
		if (item->enabled == (replica ? TRIGGER_FIRES_ON_ORIGIN
							  : TRIGGER_FIRES_ON_REPLICA))
			continue;
		if (bms_is_empty(item->tagset) || bms_is_member(tag, item->tagset))
			return true;
	}
	return false;
}

/*
 * Whether a command of this kind would fire a trigger.  Of those that create nothing, one of
 * what is dropped, too.
 */
bool
la_partition_fires_event_trigger(CommandTag tag)
{
	return fires_event_trigger(EVT_DDLCommandStart, tag) ||
		fires_event_trigger(EVT_DDLCommandEnd, tag) ||
		(tag != CMDTAG_CREATE_TABLE && fires_event_trigger(EVT_SQLDrop, tag));
}

/*
 * Does an expression in a row of a catalog call them?  It is read as it is there, since nothing
 * of it shall be evaluated.
 */
static bool
catalog_calls(int cache, Oid key, AttrNumber column)
{
	HeapTuple	tuple = SearchSysCache1(cache, ObjectIdGetDatum(key));
	bool		is_null;
	bool		found;
	Datum		stored;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", key);
	stored = SysCacheGetAttr(cache, tuple, column, &is_null);
	found = !is_null &&
		expression_calls(stringToNode(TextDatumGetCString(stored)), NULL);
	ReleaseSysCache(tuple);
	return found;
}

/*
 * Whether functions of users would run meanwhile, for which the lock of the native way is taken
 * (la_partition_create.c).
 */
bool
la_partition_calls_functions(Oid table)
{
	Relation	parent = table_open(table, AccessShareLock);
	PartitionKey key = RelationGetPartitionKey(parent);
	bool		found;

	found = !la_plain_type(key->parttypid[0]) ||
		is_users(key->partsupfunc[0].fn_oid) ||
		catalog_calls(PARTRELID, table,
					  Anum_pg_partitioned_table_partexprs);
	if (!found)
	{
		List	   *indexes = RelationGetIndexList(parent);

		foreach_oid(index, indexes)
			found = found ||
			catalog_calls(INDEXRELID, index, Anum_pg_index_indexprs) ||
			catalog_calls(INDEXRELID, index, Anum_pg_index_indpred);
		list_free(indexes);
	}
	table_close(parent, AccessShareLock);
	return found;
}
