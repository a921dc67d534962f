/*-------------------------------------------------------------------------
 *
 * la_interval_retirement.c
 *	  which partitions the next maintenance would take out, and why
 *
 * Takes nothing out, and waits for nobody but those who have locked the table itself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_inherits.h"
#include "funcapi.h"
#include "nodes/pg_list.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "intervals/la_interval_old.h"
#include "intervals/la_interval_owner.h"
#include "intervals/la_interval_retire.h"
#include "la_sql_function.h"

#define COLUMNS 7

PG_FUNCTION_INFO_V1(pg_lookahead_retirement);

static void put_row(ReturnSetInfo *result, const LaIntervalPolicy *policy,
					const LaIntervalOld *old, const char *why);
static char *reason_of(const LaIntervalPolicy *policy,
					   const LaIntervalOldList *list);
static Datum size_of(Oid partition, bool *is_null);
static Datum text_of(const char *text, bool *is_null);

/*
 * SQL function pg_lookahead_retirement(parent).  The size is null where somebody has
 * locked the partition.
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
	la_sql_function_check_row(fcinfo, result->setDesc, COLUMNS);
	la_interval_owner_begin(&before, policy->parent, policy->time_zone);
	list = la_interval_old_list(policy, GetCurrentTimestamp());
	why = reason_of(policy, list);
	for (int i = 0; i < list->count; i++)
		put_row(result, policy, &list->partitions[i], why);
	la_interval_owner_end(&before);
	return (Datum) 0;
}

static void
put_row(ReturnSetInfo *result, const LaIntervalPolicy *policy,
		const LaIntervalOld *old, const char *why)
{
	Datum		values[COLUMNS];
	bool		nulls[COLUMNS] = {0};
	int			i = 0;

	values[i++] = ObjectIdGetDatum(old->relation);
	values[i] = text_of(old->lower, &nulls[i]);
	i++;
	values[i] = text_of(old->upper, &nulls[i]);
	i++;
	values[i] = size_of(old->relation, &nulls[i]);
	i++;
	values[i++] = CStringGetTextDatum(policy->drops ? "drop" : "detach");
	values[i] = text_of(la_interval_retire_obstacle(policy->parent, old->relation),
						&nulls[i]);
	i++;
	values[i++] = CStringGetTextDatum(why);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/*
 * The same for all partitions of a list.
 */
static char *
reason_of(const LaIntervalPolicy *policy, const LaIntervalOldList *list)
{
	if (OidIsValid(list->source))
		return psprintf("ends by %s, which is %s below the last partition with a row, \"%s\"",
						list->limit, policy->retention, get_rel_name(list->source));
	return psprintf("ends by %s, which is %s ago", list->limit, policy->retention);
}

static Datum
size_of(Oid partition, bool *is_null)
{
	int64		size = 0;

	foreach_oid(leaf, find_all_inheritors(partition, NoLock, NULL))
	{
		Datum		part;

		if (!ConditionalLockRelationOid(leaf, AccessShareLock))
		{
			*is_null = true;
			return (Datum) 0;
		}
		if (get_rel_name(leaf) != NULL)
		{
			part = DirectFunctionCall1(pg_total_relation_size, ObjectIdGetDatum(leaf));
			size += DatumGetInt64(part);
		}
		UnlockRelationOid(leaf, AccessShareLock);
	}
	return Int64GetDatum(size);
}

static Datum
text_of(const char *text, bool *is_null)
{
	*is_null = text == NULL;

	return *is_null ? (Datum) 0 : CStringGetTextDatum(text);
}
