/*-------------------------------------------------------------------------
 *
 * la_intervals.c
 *	  the SQL functions that set policies and have tables maintained
 *
 * Steps, bounds and retention may be of any type: they are turned into texts,
 * as which they are kept.
 *
 * Reads PartitionKeyData of partcache.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "pgtime.h"
#include "replication/logicalworker.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "intervals/la_interval_check.h"
#include "intervals/la_interval_drain.h"
#include "intervals/la_interval_maintenance.h"
#include "intervals/la_interval_old.h"
#include "intervals/la_interval_owner.h"
#include "intervals/la_interval_partitions.h"
#include "intervals/la_interval_query.h"
#include "intervals/la_interval_retire.h"
#include "la_sql_function.h"
#include "partitions/la_partition_create.h"

PG_FUNCTION_INFO_V1(pg_lookahead_set_interval);
PG_FUNCTION_INFO_V1(pg_lookahead_change_interval);
PG_FUNCTION_INFO_V1(pg_lookahead_unset_interval);
PG_FUNCTION_INFO_V1(pg_lookahead_maintain_partitions);
PG_FUNCTION_INFO_V1(pg_lookahead_move_default_rows);
PG_FUNCTION_INFO_V1(pg_lookahead_interval_policy_check);
#ifdef LA_TEST
PG_FUNCTION_INFO_V1(la_test_interval_create_for);
#endif

/* More than this is a slip.  Arbitrary. */
#define MOST_PREMADE 10000
#define MOST_STEPS 1000000

/* Where a uuid has its first dash. */
#define UUID_FIRST_DASH 8

/*
 * Argument 0: a table of the caller, whose policy nobody else changes until
 * the transaction ends.
 */
static Oid
read_parent(FunctionCallInfo fcinfo)
{
	Oid			parent;

	la_sql_argument_need(fcinfo, 0, "parent");
	parent = PG_GETARG_OID(0);
	la_partition_check_command(parent);
	LockRelationOid(parent, ShareUpdateExclusiveLock);
	la_partition_check_command(parent);
	CacheInvalidateRelcacheByRelid(parent);
	return parent;
}

/*
 * Whether partitions are dropped.
 */
static bool
read_action(FunctionCallInfo fcinfo, int argument)
{
	char	   *action = la_sql_argument_text(fcinfo, argument);

	if (action != NULL && strcmp(action, "drop") == 0)
		return true;
	if (action == NULL || strcmp(action, "detach") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must be \"detach\" or \"drop\"",
						"retention_action")));
	return false;
}

/*
 * Arguments 1 to 12.
 */
static void
read_arguments(FunctionCallInfo fcinfo, LaIntervalPolicy *policy)
{
	int			i = 1;

	policy->step = la_sql_argument_any(fcinfo, i++, "step");
	policy->origin = PG_ARGISNULL(i) ? NULL
		: la_sql_argument_any(fcinfo, i, "origin");
	i++;
	policy->premake = la_sql_argument_number(fcinfo, i++, "premake", 0, MOST_PREMADE);
	policy->retention = PG_ARGISNULL(i) ? NULL
		: la_sql_argument_any(fcinfo, i, "retention");
	i++;
	policy->drops = read_action(fcinfo, i++);
	policy->time_zone = la_sql_argument_text(fcinfo, i++);
	policy->names = la_sql_argument_text(fcinfo, i++);
	if (!PG_ARGISNULL(i))
		policy->tablespace = pstrdup(NameStr(*PG_GETARG_NAME(i)));
	i++;
	policy->storage = la_sql_argument_text(fcinfo, i++);
	policy->max_partitions = la_sql_argument_number(fcinfo, i++, "max_partitions", 0,
													MOST_STEPS);
	policy->max_distance = la_sql_argument_number(fcinfo, i++, "max_distance", 0,
												  MOST_STEPS);
	if (!PG_ARGISNULL(i))
		policy->analyze_every = PG_GETARG_INTERVAL_P(i);
}

/*
 * Days and months of times are those of a time zone, the session's unless
 * another one was given.
 */
static void
choose_zone(LaIntervalPolicy *policy, Oid key_type)
{
	if (!la_interval_grid_is_time(key_type))
	{
		if (policy->time_zone != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("a partition key of type %s has no time zone",
							format_type_be(key_type))));
		return;
	}
	if (policy->time_zone == NULL)
		policy->time_zone = pstrdup(pg_get_timezone_name(session_timezone));
	la_sql_argument_set("TimeZone", policy->time_zone);
}

/*
 * A bound as it is kept.  Of a uuid it may be given as a time.
 */
static char *
normalize_bound(Oid key_type, char *text)
{
	Oid			input;
	Oid			parameter;
	Datum		value;

	if (key_type == UUIDOID && strchr(text, '-') != text +UUID_FIRST_DASH)
		return la_partition_series_at_moment(key_type,
											 DatumGetTimestampTz(DirectFunctionCall3(timestamptz_in,
																					 CStringGetDatum(text),
																					 ObjectIdGetDatum(InvalidOid),
																					 Int32GetDatum(-1))));
	getTypeInputInfo(key_type, &input, &parameter);
	value = OidInputFunctionCall(input, text, parameter, -1);
	return la_sql_argument_text_of(value, key_type);
}

/*
 * The last bound of the table's partitions from which steps can be counted, or
 * NULL.
 */
static char *
newest_bound(Relation parent, Oid key_type)
{
	LaIntervalPartitions *all = la_interval_partitions_read(parent);

	for (int i = all->count - 1; i >= 0; i--)
	{
		const LaIntervalPartition *partition = &all->partitions[i];

		if (partition->has_upper &&
			la_interval_grid_is_finite(key_type, &partition->upper))
			return la_interval_grid_complete(key_type, &partition->upper).text;
		if (partition->has_lower &&
			la_interval_grid_is_finite(key_type, &partition->lower))
			return la_interval_grid_complete(key_type, &partition->lower).text;
	}
	return NULL;
}

/*
 * The bound from which steps are counted: the one that was given, else the
 * last one that the table has, so that a series which began without a policy
 * goes on.  2001 begins with a Monday.
 */
static char *
choose_origin(const LaIntervalPolicy *policy, Relation parent)
{
	PartitionKey key = RelationGetPartitionKey(parent);
	Oid			key_type = getBaseType(key->parttypid[0]);
	char	   *newest;

	if (policy->origin != NULL)
		return normalize_bound(key_type, policy->origin);
	newest = newest_bound(parent, key_type);
	if (newest != NULL)
		return newest;
	return la_interval_grid_is_time(key_type)
		? normalize_bound(key_type, "2001-01-01") : "0";
}

/*
 * What a retention makes old at once is told: it may be a slip.
 */
static void
tell_old(const LaIntervalPolicy *policy)
{
	int			count = la_interval_old_list(policy, GetCurrentTimestamp())->count;

	if (count > 0)
		ereport(NOTICE,
				(errmsg("partitions of \"%s\" older than the retention: %d; the next maintenance will %s them",
						get_rel_name(policy->parent), count,
						policy->drops ? "drop" : "detach"),
				 errhint("pg_lookahead_retirement() lists them.")));
}

/*
 * Completes and checks a policy, as the owner of the table: whatever a later
 * maintenance would stumble over.
 */
static void
check_policy(LaIntervalPolicy *policy)
{
	LaIntervalOwner before;
	Relation	parent;
	Oid			key_type;
	LaIntervalGrid *grid;

	la_interval_owner_begin(&before, policy->parent, NULL);
	parent = la_interval_grid_open(policy->parent);
	key_type = getBaseType(RelationGetPartitionKey(parent)->parttypid[0]);
	choose_zone(policy, key_type);
	policy->origin = choose_origin(policy, parent);
	grid = la_interval_grid_make(policy, parent);
	policy->origin = grid->segments[0].start.text;
	la_interval_check_steps(grid);
	if (policy->retention != NULL)
		la_interval_old_check(policy, key_type);
	la_interval_check_options(policy, grid);
	table_close(parent, NoLock);
	tell_old(policy);
	la_interval_owner_end(&before);
}

/*
 * SQL function pg_lookahead_set_interval(parent, step, origin, premake,
 * retention, retention_action, time_zone, names, tablespace, storage,
 * max_partitions, max_distance, analyze_every).
 */
Datum
pg_lookahead_set_interval(PG_FUNCTION_ARGS)
{
	LaIntervalPolicy policy = {0};

	policy.parent = read_parent(fcinfo);
	read_arguments(fcinfo, &policy);
	check_policy(&policy);
	la_interval_policy_write(&policy);
	PG_RETURN_VOID();
}

/*
 * Adds a change of the step to those that are before it; later ones are
 * forgotten.
 */
static void
add_change(LaIntervalPolicy *policy, const LaIntervalGrid *grid, char *starts,
		   char *step)
{
	LaIntervalBound start = la_interval_grid_bound(grid, starts);
	char	  **change_starts = palloc_array(char *, policy->changes + 1);
	char	  **change_steps = palloc_array(char *, policy->changes + 1);
	int			count = 0;

	if (!la_interval_grid_is_finite(grid->key_type, &start))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must be finite", "starts")));
	/* Of segments the first one is before all changes. */
	while (count < policy->changes &&
		   la_interval_grid_compare(grid, &grid->segments[count + 1].start,
									&start) < 0)
	{
		change_starts[count] = policy->change_starts[count];
		change_steps[count] = policy->change_steps[count];
		count++;
	}
	change_starts[count] = start.text;
	change_steps[count] = step;
	policy->change_starts = change_starts;
	policy->change_steps = change_steps;
	policy->changes = count + 1;
}

/*
 * SQL function pg_lookahead_change_interval(parent, step, starts).  Returns
 * the bound from which on steps are the new ones.
 */
Datum
pg_lookahead_change_interval(PG_FUNCTION_ARGS)
{
	Oid			oid = read_parent(fcinfo);
	LaIntervalPolicy *policy = la_interval_policy_need(oid);
	char	   *step = la_sql_argument_any(fcinfo, 1, "step");
	char	   *starts = PG_ARGISNULL(2) ? NULL
		: la_sql_argument_any(fcinfo, 2, "starts");
	LaIntervalOwner before;
	Relation	parent;
	LaIntervalGrid *grid;

	la_interval_owner_begin(&before, oid, policy->time_zone);
	parent = la_interval_grid_open(oid);
	grid = la_interval_grid_make(policy, parent);
	starts = starts != NULL ? normalize_bound(grid->key_type, starts)
		: newest_bound(parent, grid->key_type);
	if (starts == NULL)
		starts = policy->origin;
	add_change(policy, grid, starts, step);
	la_interval_check_steps(la_interval_grid_make(policy, parent));
	table_close(parent, NoLock);
	/* One that came with a dump is obeyed from now on. */
	tell_old(policy);
	la_interval_owner_end(&before);
	la_interval_policy_write(policy);
	PG_RETURN_TEXT_P(cstring_to_text(policy->change_starts[policy->changes - 1]));
}

/*
 * SQL function pg_lookahead_unset_interval(parent).  Returns whether there was
 * a policy.
 */
Datum
pg_lookahead_unset_interval(PG_FUNCTION_ARGS)
{
	Oid			parent = read_parent(fcinfo);
	Oid			pending = la_interval_retire_pending(parent).partition;

	if (OidIsValid(pending))
		ereport(WARNING,
				(errmsg("partition \"%s\" is still being detached",
						get_rel_name(pending)),
				 errhint("ALTER TABLE ... DETACH PARTITION ... FINALIZE ends that.")));
	PG_RETURN_BOOL(la_interval_policy_remove(parent));
}

/*
 * Refuses where a procedure cannot commit.
 */
static void
check_call(FunctionCallInfo fcinfo, const char *name)
{
	CallContext *call = (CallContext *) fcinfo->context;

	if (call == NULL || !IsA(call, CallContext) || call->atomic)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
				 errmsg("partitions cannot be maintained within a transaction"),
				 errhint("Use CALL outside of a transaction block.")));
	PreventCommandIfReadOnly(name);
	PreventCommandDuringRecovery(name);
}

/*
 * A name that the client cannot be sent stops no other tables.
 */
static void
tell_busy(void *parent)
{
	ereport(NOTICE,
			(errmsg("the partitions of \"%s\" are maintained by another session just now",
					get_rel_name(*(Oid *) parent))));
}

static void
check_may_maintain(Oid parent)
{
	AclResult	result;

	if (get_rel_name(parent) == NULL)
		la_partition_refuse_missing(parent);
	result = pg_class_aclcheck(parent, GetUserId(), ACL_MAINTAIN);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, get_relkind_objtype(get_rel_relkind(parent)),
					   get_rel_name(parent));
}

/*
 * SQL procedure pg_lookahead_maintain_partitions(parent): of one table, or of
 * all that the caller may maintain.
 */
Datum
pg_lookahead_maintain_partitions(PG_FUNCTION_ARGS)
{
	List	   *parents;

	check_call(fcinfo, "CALL pg_lookahead_maintain_partitions()");
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	if (!PG_ARGISNULL(0))
	{
		check_may_maintain(PG_GETARG_OID(0));
		(void) la_interval_policy_need(PG_GETARG_OID(0));
		parents = list_make1_oid(PG_GETARG_OID(0));
	}
	else
		parents = la_interval_policy_parents();
	foreach_oid(parent, parents)
	{
		/* Of a table that is no more only the policy is removed. */
		if (get_rel_name(parent) != NULL &&
			pg_class_aclcheck(parent, GetUserId(), ACL_MAINTAIN) != ACLCHECK_OK)
			continue;
		if (!la_interval_maintain(parent))
			(void) la_interval_try(tell_busy, &parent);
	}
	SPI_finish();
	PG_RETURN_VOID();
}

/*
 * SQL procedure pg_lookahead_move_default_rows(parent, ranges): of a table of the caller.
 */
Datum
pg_lookahead_move_default_rows(PG_FUNCTION_ARGS)
{
	Oid			parent;
	int			most = PG_INT32_MAX;

	check_call(fcinfo, "CALL pg_lookahead_move_default_rows()");
	la_sql_argument_need(fcinfo, 0, "parent");
	parent = PG_GETARG_OID(0);
	if (!PG_ARGISNULL(1))
		most = la_sql_argument_number(fcinfo, 1, "ranges", 1, PG_INT32_MAX);
	la_partition_check_command(parent);
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	(void) la_interval_policy_need(parent);
	if (!la_interval_drain(parent, most))
		(void) la_interval_try(tell_busy, &parent);
	SPI_finish();
	PG_RETURN_VOID();
}

/*
 * Whether a trigger is fired as it is in the extension, for a row of one of its tables.
 */
static bool
is_trigger_of_ours(FunctionCallInfo fcinfo, bool *is_policy)
{
	TriggerData *data = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_BEFORE(data->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(data->tg_event))
		return false;
	*is_policy = RelationGetRelid(data->tg_relation) == la_interval_query_policy_table();
	return *is_policy ||
		RelationGetRelid(data->tg_relation) == la_interval_query_state_table();
}

/*
 * Whether this policy, which a user writes without our functions, is of a table of that user.
 */
static bool
is_of_user(const TriggerData *data, HeapTuple row)
{
	TupleDesc	columns = RelationGetDescr(data->tg_relation);
	bool		is_null[2];
	Oid			parent = DatumGetObjectId(heap_getattr(row, 1, columns, &is_null[0]));
	Oid			row_type = DatumGetObjectId(heap_getattr(row, 2, columns, &is_null[1]));

	if (!is_null[0] && !is_null[1] && OidIsValid(row_type) &&
		get_rel_type_id(parent) == row_type &&
		object_ownercheck(RelationRelationId, parent, GetUserId()))
	{
		/* Sessions that remember that it has none look again. */
		CacheInvalidateRelcacheByRelid(parent);
		return true;
	}
	ereport(WARNING,
			(errmsg("an interval policy was left out"),
			 errdetail("It is of a table that does not exist or does not belong to the user, with OID %u.",
					   parent)));
	return false;
}

/*
 * Trigger of the tables of policies and of states.  Rows that logical replication brings are of
 * another server: they change nothing here, be there such a row or not.  Policies that are
 * inserted by hand, by the restore of a dump, have to be about a table of whoever inserts them.
 */
Datum
pg_lookahead_interval_policy_check(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	HeapTuple	row;
	bool		is_policy;

	if (!is_trigger_of_ours(fcinfo, &is_policy))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("\"%s\" is for a trigger of the extension only",
						"pg_lookahead_interval_policy_check()")));
	row = TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple
		: data->tg_trigtuple;
	if (la_interval_query_is_running())
		return PointerGetDatum(row);
	if (IsLogicalWorker())
		return PointerGetDatum(NULL);
	if (is_policy && !TRIGGER_FIRED_BY_DELETE(data->tg_event) && !is_of_user(data, row))
		return PointerGetDatum(NULL);
	return PointerGetDatum(row);
}

#ifdef LA_TEST
/*
 * Function la_test_interval_create_for(parent, value), which tests make, and
 * which a server without test settings has not.  Returns whether a partition
 * was created.
 */
Datum
la_test_interval_create_for(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(la_interval_create_for(PG_GETARG_OID(0),
										  la_sql_argument_text(fcinfo, 1)));
}
#endif
