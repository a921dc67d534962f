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
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "intervals/la_interval_outlook.h"
#include "intervals/la_interval_owner.h"
#include "la_sql_function.h"

#define COLUMNS 7

PG_FUNCTION_INFO_V1(pg_lookahead_interval_status);

static void fill(Datum *values, bool *nulls, const LaIntervalPolicy *policy);
static Datum oldest(const LaIntervalOutlook *outlook, bool *is_null);
static Datum newest(const LaIntervalOutlook *outlook, bool *is_null);
static Datum text_of_bound(const LaIntervalOutlook *outlook, bool exists,
						   const LaIntervalBound *bound, bool *is_null);

/*
 * SQL function pg_lookahead_interval_status(parent).  All columns are null
 * where the policy makes no sense any more, of which maintenance tells more.
 */
Datum
pg_lookahead_interval_status(PG_FUNCTION_ARGS)
{
	Oid			parent = PG_GETARG_OID(0);
	TupleDesc	row = la_sql_function_row(fcinfo, COLUMNS);
	Datum		values[COLUMNS] = {0};
	bool		nulls[COLUMNS];
	LaIntervalPolicy *policy = NULL;

	memset(nulls, true, sizeof(nulls));
	if (get_rel_name(parent) != NULL)
		policy = la_interval_policy_read(parent);
	if (policy != NULL)
		fill(values, nulls, policy);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(row, values, nulls)));
}

static void
fill(Datum *values, bool *nulls, const LaIntervalPolicy *policy)
{
	LaIntervalOwner before;
	LaIntervalOutlook outlook;
	Relation	parent;
	Oid			other;
	int			i = 0;

	la_interval_owner_begin(&before, policy->parent, policy->time_zone);
	parent = la_interval_grid_open(policy->parent);
	la_interval_outlook_take(&outlook, policy, parent, GetCurrentTimestamp());
	memset(nulls, false, COLUMNS * sizeof(bool));
	values[i++] = Int32GetDatum(outlook.partitions->count);
	values[i] = oldest(&outlook, &nulls[i]);
	i++;
	values[i] = newest(&outlook, &nulls[i]);
	i++;
	nulls[i] = !outlook.is_missing;
	if (outlook.is_missing)
		values[i] = CStringGetTextDatum(outlook.missing.lower.text);
	i++;
	values[i++] = Int32GetDatum(outlook.ahead);
	other = outlook.partitions->default_partition;
	nulls[i] = nulls[i + 1] = !OidIsValid(other);
	if (OidIsValid(other))
	{
		values[i] = ObjectIdGetDatum(other);
		values[i + 1] = BoolGetDatum(la_interval_partitions_is_used(other));
	}
	table_close(parent, AccessShareLock);
	la_interval_owner_end(&before);
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
