/*-------------------------------------------------------------------------
 *
 * la_interval_view.c
 *	  what the view of interval policies tells of a table's partitions, and which of them the
 *	  next maintenance would take out
 *
 * Takes nothing out, and waits for nobody but those who have locked the table itself.
 *
 * Anybody may look at the view, as at the catalogs from which it is made.  What is in
 * the key of a table is called as its owner, whoever looks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "funcapi.h"
#include "nodes/pg_list.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "intervals/la_interval_old.h"
#include "intervals/la_interval_outlook.h"
#include "intervals/la_interval_owner.h"
#include "intervals/la_interval_retire.h"
#include "la_sql_function.h"

#define STATUS_COLUMNS 7
#define RETIREMENT_COLUMNS 6

PG_FUNCTION_INFO_V1(pg_lookahead_interval_status);
PG_FUNCTION_INFO_V1(pg_lookahead_retirement);

/* A row to be filled in. */
typedef struct LaIntervalStatus
{
	const LaIntervalPolicy *policy;
	Datum		values[STATUS_COLUMNS];
	bool		nulls[STATUS_COLUMNS];
} LaIntervalStatus;

static Datum
text_of(const char *text, bool *is_null)
{
	*is_null = text == NULL;

	return *is_null ? (Datum) 0 : CStringGetTextDatum(text);
}

static void
fill_outlook(LaIntervalStatus *status, const LaIntervalOutlook *outlook)
{
	Datum	   *values = status->values;
	bool	   *nulls = status->nulls;
	const LaIntervalPartitions *all = outlook->partitions;
	const LaIntervalPartition *first = &all->partitions[0];
	const LaIntervalPartition *last = &all->partitions[Max(all->count, 1) - 1];
	Oid			key_type = outlook->grid->key_type;
	Oid			other = all->default_partition;
	int			i = 0;

	memset(nulls, false, sizeof(status->nulls));
	values[i++] = Int32GetDatum(all->count);
	values[i] = text_of(all->count == 0 || !first->has_lower ? NULL :
						la_interval_grid_complete(key_type, &first->lower).text,
						&nulls[i]);
	i++;
	values[i] = text_of(all->count == 0 || !last->has_upper ? NULL :
						la_interval_grid_complete(key_type, &last->upper).text,
						&nulls[i]);
	i++;
	values[i] = text_of(outlook->locked == NULL ? outlook->wanted : NULL, &nulls[i]);
	i++;
	nulls[i] = outlook->locked != NULL;
	values[i++] = Int32GetDatum(outlook->ahead);
	nulls[i] = nulls[i + 1] = !OidIsValid(other);
	if (OidIsValid(other))
	{
		values[i] = ObjectIdGetDatum(other);
		values[i + 1] = BoolGetDatum(la_interval_partitions_is_used(other));
	}
}

static void
fill_status(void *arg)
{
	LaIntervalStatus *status = arg;
	const LaIntervalPolicy *policy = status->policy;
	LaIntervalOwner before;
	LaIntervalOutlook outlook;
	Relation	parent;

	la_interval_owner_begin(&before, policy->parent, policy->time_zone);
	parent = la_interval_grid_open(policy->parent);
	la_interval_outlook_take(&outlook, policy, parent, GetCurrentTimestamp());
	fill_outlook(status, &outlook);
	table_close(parent, AccessShareLock);
	la_interval_owner_end(&before);
}

/*
 * SQL function pg_lookahead_interval_status(parent).  All columns are null where the table is
 * locked just now, and where the policy makes no sense any more, of which maintenance tells
 * more.  While the last partition in use is not known, so is what is after it.
 */
Datum
pg_lookahead_interval_status(PG_FUNCTION_ARGS)
{
	Oid			parent = PG_GETARG_OID(0);
	TupleDesc	row = la_sql_function_row(fcinfo, STATUS_COLUMNS);
	LaIntervalStatus status = {0};

	memset(status.nulls, true, sizeof(status.nulls));
	if (get_rel_name(parent) != NULL)
		status.policy = la_interval_policy_read(parent);
	if (status.policy != NULL && ConditionalLockRelationOid(parent, AccessShareLock))
	{
		if (la_interval_try(fill_status, &status) != NULL)
			memset(status.nulls, true, sizeof(status.nulls));
		UnlockRelationOid(parent, AccessShareLock);
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(row, status.values,
													  status.nulls)));
}

static void
put_old(ReturnSetInfo *result, const LaIntervalPolicy *policy,
		const LaIntervalOld *old, const char *why)
{
	Datum		values[RETIREMENT_COLUMNS];
	bool		nulls[RETIREMENT_COLUMNS] = {0};
	int			i = 0;

	values[i++] = ObjectIdGetDatum(old->relation);
	values[i] = text_of(old->lower, &nulls[i]);
	i++;
	values[i] = text_of(old->upper, &nulls[i]);
	i++;
	values[i++] = CStringGetTextDatum(policy->drops ? "drop" : "detach");
	values[i] = text_of(la_interval_retire_obstacle(policy->parent, old->relation),
						&nulls[i]);
	i++;
	values[i++] = CStringGetTextDatum(why);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/*
 * SQL function pg_lookahead_retirement(parent).
 */
Datum
pg_lookahead_retirement(PG_FUNCTION_ARGS)
{
	LaIntervalPolicy *policy = la_interval_policy_need(PG_GETARG_OID(0));
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	LaIntervalOwner before;
	LaIntervalOldList *list;
	char	   *why;

	InitMaterializedSRF(fcinfo, 0);
	la_sql_function_check_row(fcinfo, result->setDesc, RETIREMENT_COLUMNS);
	la_interval_owner_begin(&before, policy->parent, policy->time_zone);
	list = la_interval_old_list(policy, GetCurrentTimestamp());
	why = OidIsValid(list->source.partition) ?
		psprintf("ends by %s, which is %s below the last partition with a row, \"%s\"",
				 list->limit, policy->retention, get_rel_name(list->source.partition)) :
		psprintf("ends by %s, which is %s ago", list->limit, policy->retention);

	for (int i = 0; i < list->count; i++)
		put_old(result, policy, &list->partitions[i], why);
	la_interval_owner_end(&before);
	return (Datum) 0;
}
