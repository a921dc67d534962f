/*-------------------------------------------------------------------------
 *
 * la_needed_statement.c
 *	  whether a statement knows a partition for a row, and what it does when not
 *
 * It looks whether it knows a partition for a row.  If not, one is created, and the statement
 * gets another routing, in which core finds it.  Nothing has been done for the row by then.
 *
 * The routings and the directories of before stay, because rows that were inserted by them may have
 * triggers to come, and pruning may know them.  They are ended with the statement.
 *
 * Mirrors get_partition_for_tuple() in execPartition.c and partition_range_datum_bsearch() in
 * partbounds.c, and writes what that remembers in PartitionDescData of partdesc.h.  Reads
 * ModifyTableState of execnodes.h, PartitionKeyData of partcache.h and PartitionBoundInfoData
 * of partbounds.h.  Relies on btint4cmp() and btint8cmp() in nbtcompare.c, date_cmp() in date.c
 * and timestamp_cmp_internal() in timestamp.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "common/int.h"
#include "executor/execPartition.h"
#include "executor/executor.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/ruleutils.h"

#include "la_sql_function.h"
#include "needed_partitions/la_needed_request.h"
#include "needed_partitions/la_needed_statement.h"

/* Core's PARTITION_CACHED_FIND_THRESHOLD: a partition found so often is looked at first. */
#define CACHED_FIND 16

/* Characters of a key in an error, as core shows at most. */
#define MOST_SHOWN 64

/* Of all statements that are executed just now: few, and hardly ever more than one. */
static LaNeeded *all = NULL;

/*
 * The partitions that core's routing knows.  In a query that prunes none, and has no other node
 * that changes rows, nothing but the routing has asked the relcache for them.  Then what the
 * relcache has now is what the routing has read, since an invalidation leaves rd_partdesc
 * empty.  Relies on RelationGetPartitionDesc() in partdesc.c and RelationRebuildRelation() in
 * relcache.c.
 */
static PartitionDesc
partitions_of_routing(EState *estate, Relation table)
{
	if (likely(estate->es_part_prune_infos == NIL &&
			   estate->es_auxmodifytables == NIL &&
			   table->rd_partdesc != NULL &&
			   !table->rd_partdesc->detached_exist))
	{
		Assert(table->rd_partdesc == PartitionDirectoryLookup(estate->es_partition_directory, table));
		return table->rd_partdesc;
	}
	return PartitionDirectoryLookup(estate->es_partition_directory, table);
}

/*
 * How many bytes the integers have that the key is compared as, or 0.
 */
static int
width_of_integer(PartitionKey key)
{
	switch (key->partsupfunc[0].fn_oid)
	{
		case F_BTINT4CMP:
		case F_DATE_CMP:
			return sizeof(int32);
		case F_BTINT8CMP:
		case F_TIMESTAMP_CMP:
		case F_TIMESTAMPTZ_CMP:
			return sizeof(int64);
		default:
			return 0;
	}
}

/*
 * MemoryContextCallbackFunction: the statement's memory goes, after an error, too.
 */
static void
unlink_statement(void *needed)
{
	LaNeeded  **place = &all;

	while (*place != needed)
		place = &(*place)->next;
	*place = (*place)->next;
}

/*
 * Rows of this node's table are looked at from now on.  In the statement's memory.
 */
LaNeeded *
la_needed_begin(ModifyTableState *node)
{
	EState	   *estate = node->ps.state;
	Relation	table = node->rootResultRelInfo->ri_RelationDesc;
	PartitionKey key = RelationGetPartitionKey(table);
	LaNeeded   *needed = palloc0_object(LaNeeded);

	needed->node = node;
	needed->table = table;
	needed->column = key->partattrs[0];
	needed->width = width_of_integer(key);
	if (needed->column == 0)
		needed->key = ExecPrepareExpr(la_needed_key(table), estate);
	if (node->mt_partition_tuple_routing != NULL)
		needed->partitions = partitions_of_routing(estate, table);
	needed->next = all;
	all = needed;
	needed->forget.func = unlink_statement;
	needed->forget.arg = needed;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &needed->forget);
	return needed;
}

/*
 * ExprContextCallbackFunction: the statement has come to its end, without an error.  Relies on
 * FreeExecutorState() in execUtils.c.
 */
static void
end_routings(Datum argument)
{
	LaNeeded   *needed = (LaNeeded *) DatumGetPointer(argument);

	foreach_ptr(PartitionTupleRouting, routing, needed->routings)
		ExecCleanupTupleRouting(needed->node, routing);
	foreach_ptr(struct PartitionDirectoryData, directory, needed->directories)
		DestroyPartitionDirectory(directory);
}

/*
 * The node of this kind that is watched, or NULL.
 */
LaNeeded *
la_needed_find(const ModifyTableState *node)
{
	LaNeeded   *needed = all;

	while (needed != NULL && needed->node != node)
		needed = needed->next;
	return needed;
}

/*
 * The key, of a row of the table.
 */
Expr *
la_needed_key(Relation table)
{
	PartitionKey key = RelationGetPartitionKey(table);

	if (key->partattrs[0] == 0)
		return copyObject((Expr *) linitial(key->partexprs));
	return (Expr *) makeVar(1, key->partattrs[0], key->parttypid[0],
							key->parttypmod[0], key->parttypcoll[0], 0);
}

/*
 * Keys are evaluated in it, and its end is that of the statement: few statements need one.
 */
static ExprContext *
context_of(LaNeeded *needed)
{
	if (needed->context == NULL)
	{
		needed->context = CreateExprContext(needed->node->ps.state);
		RegisterExprContextCallback(needed->context, end_routings, PointerGetDatum(needed));
	}
	return needed->context;
}

/*
 * A bound against the key of the row.
 */
static inline int
compare_bound(const LaNeeded *needed, int offset)
{
	PartitionBoundInfo bounds = needed->partitions->boundinfo;
	Datum	   *bound = bounds->datums[offset];
	PartitionKey key;
	Datum		value = needed->value;

	if (needed->width != 0 && bounds->kind[offset][0] == PARTITION_RANGE_DATUM_VALUE)
		return needed->width == sizeof(int32)
			? pg_cmp_s32(DatumGetInt32(bound[0]), DatumGetInt32(value))
			: pg_cmp_s64(DatumGetInt64(bound[0]), DatumGetInt64(value));
	key = RelationGetPartitionKey(needed->table);
	return partition_rbound_datum_cmp(key->partsupfunc, key->partcollation, bound,
									  bounds->kind[offset], &value, 1);
}

/*
 * The last bound that is no greater than the key of the row, or -1.
 */
static int
search(const LaNeeded *needed)
{
	int			low = -1;
	int			high = needed->partitions->boundinfo->ndatums - 1;

	while (low < high)
	{
		int			middle = (low + high + 1) / 2;

		if (compare_bound(needed, middle) <= 0)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static bool
is_there(const LaNeeded *needed)
{
	PartitionDesc partitions = needed->partitions;
	PartitionBoundInfo bounds = partitions->boundinfo;
	int			offset = partitions->last_found_datum_index;

	if (partitions->nparts == 0)
		return false;
	if (partition_bound_has_default(bounds))
		return true;
	if (needed->is_null)
		return false;
	if (offset >= 0 && offset + 1 < bounds->ndatums && bounds->indexes[offset + 1] >= 0 &&
		compare_bound(needed, offset) <= 0 && compare_bound(needed, offset + 1) > 0)
		return true;
	offset = search(needed);
	if (bounds->indexes[offset + 1] < 0)
		return false;

	/*
	 * Core looks there first when it routes the row, and need not search
	 * again.
	 */
	partitions->last_found_datum_index = offset;
	partitions->last_found_part_index = bounds->indexes[offset + 1];
	partitions->last_found_count = CACHED_FIND;
	return true;
}

/*
 * Whether the statement knows no partition for a row with this key: one of the table, if that
 * is NULL.
 */
bool
la_needed_lacks(LaNeeded *needed, ExprState *key, TupleTableSlot *row)
{
	if (key == NULL && needed->column > 0)
		needed->value = slot_getattr(row, needed->column, &needed->is_null);
	else
	{
		ExprContext *context = context_of(needed);

		ResetExprContext(context);
		context->ecxt_scantuple = row;
		needed->value = ExecEvalExprSwitchContext(key == NULL ? needed->key : key,
												  context, &needed->is_null);
	}
	return !is_there(needed);
}

/*
 * Where partitions have come or gone, the statement finds them by another routing from now on.  The
 * directory of a plan stays its: pruning at run time that begins again has its maps from that.
 * Relies on InitExecPartitionPruneContexts() in execPartition.c.
 */
void
la_needed_look_again(LaNeeded *needed)
{
	ModifyTableState *node = needed->node;
	EState	   *estate = node->ps.state;
	bool		has_plan = node->ps.plan != NULL;
	PartitionDirectory fresh,
				old = estate->es_partition_directory;
	MemoryContext caller;

	AcceptInvalidationMessages();
	if (needed->partitions == RelationGetPartitionDesc(needed->table,
													   !IsolationUsesXactSnapshot()))
		return;
	caller = MemoryContextSwitchTo(estate->es_query_cxt);
	(void) context_of(needed);
	if (node->mt_partition_tuple_routing != NULL)
		needed->routings = lappend(needed->routings, node->mt_partition_tuple_routing);
	estate->es_partition_directory = NULL;
	node->mt_partition_tuple_routing =
		ExecSetupPartitionTupleRouting(estate, needed->table);
	fresh = estate->es_partition_directory;
	if (node->operation != CMD_INSERT && node->mt_root_tuple_slot == NULL)
		node->mt_root_tuple_slot = table_slot_create(needed->table, NULL);
	needed->partitions = PartitionDirectoryLookup(fresh, needed->table);
	if (has_plan && old != NULL)
		estate->es_partition_directory = old;
	if (old != NULL)
		needed->directories = lappend(needed->directories, has_plan ? fresh : old);
	MemoryContextSwitchTo(caller);
}

/*
 * Why nobody can be asked for a partition, or NULL.
 */
static const char *
cannot_ask(const LaNeeded *needed)
{
	if (needed->is_null)
		return "the key is null";
	if (needed->table->rd_createSubid != InvalidSubTransactionId)
		return "the table was created in this transaction";
	if (CheckRelationLockedByMe(needed->table, ShareUpdateExclusiveLock, true))
		return "this transaction has locked the table";
	return NULL;
}

static bool
may_see_key(Relation table)
{
	Oid			relid = RelationGetRelid(table);
	AttrNumber	column = get_partition_col_attnum(RelationGetPartitionKey(table), 0);

	if (check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED)
		return false;
	return pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK ||
		(column != InvalidAttrNumber &&
		 pg_attribute_aclcheck(relid, column, GetUserId(), ACL_SELECT) == ACLCHECK_OK);
}

/*
 * Asks for a partition.  Why there is none, or NULL: the worker's words can have the key in
 * them, and names of partitions too.
 *
 * Core reads the bounds of one partition after another, and takes messages in meanwhile.  The
 * one that tells of a new partition is lost then: what was read before it stays.  So where the
 * worker has found the partition, and we do not, core is made to read again.  Relies on
 * RelationBuildPartitionDesc() in partdesc.c.
 */
static const char *
ask_for_partition(LaNeeded *needed)
{
	int			level = la_sql_argument_begin_output();
	char	   *key = la_sql_argument_text_of(needed->value,
											  RelationGetPartitionKey(needed->table)->parttypid[0]);
	LaNeededAnswer answer;

	AtEOXact_GUC(true, level);
	answer = la_needed_request(RelationGetRelid(needed->table), key, needed->created);

	if (answer.is_created)
		needed->created++;
	la_needed_look_again(needed);
	if (answer.refusal != NULL)
		return may_see_key(needed->table) ? answer.refusal
			: "only who may read the key is told why";
	if (is_there(needed))
		return NULL;
	RelationCacheInvalidateEntry(RelationGetRelid(needed->table));
	la_needed_look_again(needed);
	return is_there(needed) ? NULL : "it was dropped again";
}

/*
 * The key and its value, or NULL where the user must not see that.
 */
static const char *
describe_key(Relation table, Datum key, bool is_null)
{
	Oid			type = get_partition_col_typid(RelationGetPartitionKey(table), 0);
	char	   *value = "null";
	const char *dots = "";
	Oid			output;
	bool		is_varlena;

	if (!may_see_key(table))
		return NULL;
	if (!is_null)
	{
		getTypeOutputInfo(type, &output, &is_varlena);
		value = OidOutputFunctionCall(output, key);
	}
	if (strlen(value) > MOST_SHOWN)
	{
		value[pg_mbcliplen(value, strlen(value), MOST_SHOWN)] = '\0';
		dots = "...";
	}
	return psprintf("(%s) = (%s%s)",
					pg_get_partkeydef_columns(RelationGetRelid(table), true),
					value, dots);
}

/*
 * The error of a row that has no partition, and gets none: core's, with a hint.  Mirrors
 * ExecFindPartition() and ExecBuildSlotPartitionKeyDescription() in execPartition.c, for a key of
 * one column or expression.
 */
pg_noreturn static void
refuse_row(Relation table, Datum key, bool is_null, const char *why)
{
	const char *description = describe_key(table, key, is_null);

	ereport(ERROR,
			(errcode(ERRCODE_CHECK_VIOLATION),
			 errmsg("no partition of relation \"%s\" found for row",
					RelationGetRelationName(table)),
			 description == NULL ? 0
			 : errdetail("Partition key of the failing row contains %s.", description),
			 errhint("None was created for it: %s.", why),
			 errtable(table)));
}

/*
 * Provides the row that was looked at last with a partition, or throws.
 */
void
la_needed_provide(LaNeeded *needed)
{
	Oid			table = RelationGetRelid(needed->table);
	const char *why;

	for (bool has_waited = false;; has_waited = true)
	{
		la_needed_look_again(needed);
		if (is_there(needed))
			return;
		why = cannot_ask(needed);
		if (why != NULL || la_needed_request_begin(table, has_waited))
			break;
	}
	if (why == NULL)
	{
		la_needed_look_again(needed);
		if (!is_there(needed))
			why = ask_for_partition(needed);
		la_needed_request_end(table);
	}
	if (why != NULL)
		refuse_row(needed->table, needed->value, needed->is_null, why);
}
