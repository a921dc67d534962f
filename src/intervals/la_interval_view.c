/*-------------------------------------------------------------------------
 *
 * la_interval_view.c
 *	  what the view of interval policies tells of a table's partitions
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
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "intervals/la_interval_outlook.h"
#include "intervals/la_interval_owner.h"
#include "intervals/la_interval_try.h"
#include "la_sql_function.h"

#define COLUMNS 7

PG_FUNCTION_INFO_V1(pg_lookahead_interval_status);

/* A row to be filled in. */
typedef struct LaIntervalStatus
{
	const LaIntervalPolicy *policy;
	Datum		values[COLUMNS];
	bool		nulls[COLUMNS];
} LaIntervalStatus;

static void fill(void *arg);
static void fill_outlook(LaIntervalStatus *status,
						 const LaIntervalOutlook *outlook);
static Datum oldest(const LaIntervalOutlook *outlook, bool *is_null);
static Datum newest(const LaIntervalOutlook *outlook, bool *is_null);
static Datum text_of_bound(const LaIntervalOutlook *outlook, bool exists,
						   const LaIntervalBound *bound, bool *is_null);

/*
 * SQL function pg_lookahead_interval_status(parent).  All columns are null
 * where the table is locked just now, and where the policy makes no sense any
 * more, of which maintenance tells more.
 */
Datum
pg_lookahead_interval_status(PG_FUNCTION_ARGS)
{
	Oid			parent = PG_GETARG_OID(0);
	TupleDesc	row = la_sql_function_row(fcinfo, COLUMNS);
	LaIntervalStatus status = {0};

	memset(status.nulls, true, sizeof(status.nulls));
	if (get_rel_name(parent) != NULL)
		status.policy = la_interval_policy_read(parent);
	if (status.policy != NULL && ConditionalLockRelationOid(parent, AccessShareLock))
	{
		if (la_interval_try(fill, &status) != NULL)
			memset(status.nulls, true, sizeof(status.nulls));
		UnlockRelationOid(parent, AccessShareLock);
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(row, status.values,
													  status.nulls)));
}

static void
fill(void *arg)
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

static void
fill_outlook(LaIntervalStatus *status, const LaIntervalOutlook *outlook)
{
	Datum	   *values = status->values;
	bool	   *nulls = status->nulls;
	Oid			other = outlook->partitions->default_partition;
	int			i = 0;

	memset(nulls, false, sizeof(status->nulls));
	values[i++] = Int32GetDatum(outlook->partitions->count);
	values[i] = oldest(outlook, &nulls[i]);
	i++;
	values[i] = newest(outlook, &nulls[i]);
	i++;
	nulls[i] = outlook->wanted == NULL;
	if (outlook->wanted != NULL)
		values[i] = CStringGetTextDatum(outlook->wanted);
	i++;
	values[i++] = Int32GetDatum(outlook->ahead);
	nulls[i] = nulls[i + 1] = !OidIsValid(other);
	if (OidIsValid(other))
	{
		values[i] = ObjectIdGetDatum(other);
		values[i + 1] = BoolGetDatum(la_interval_partitions_is_used(other));
	}
}

static Datum
oldest(const LaIntervalOutlook *outlook, bool *is_null)
{
	const LaIntervalPartitions *all = outlook->partitions;

	return text_of_bound(outlook, all->count > 0 && all->partitions[0].has_lower,
						 &all->partitions[0].lower, is_null);
}

static Datum
newest(const LaIntervalOutlook *outlook, bool *is_null)
{
	const LaIntervalPartitions *all = outlook->partitions;
	int			last = Max(all->count, 1) - 1;

	return text_of_bound(outlook, all->count > 0 && all->partitions[last].has_upper,
						 &all->partitions[last].upper, is_null);
}

static Datum
text_of_bound(const LaIntervalOutlook *outlook, bool exists,
			  const LaIntervalBound *bound, bool *is_null)
{
	*is_null = !exists;
	if (!exists)
		return (Datum) 0;
	return CStringGetTextDatum(la_interval_grid_complete(outlook->grid->key_type,
														 bound).text);
}
