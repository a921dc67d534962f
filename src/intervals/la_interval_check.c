/*-------------------------------------------------------------------------
 *
 * la_interval_check.c
 *	  whether a policy can be obeyed
 *
 * What each later maintenance would stumble over is refused when the policy is set.
 *
 * Always as the table's owner, in the policy's time zone.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "commands/tablespace.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "intervals/la_interval_check.h"
#include "partitions/la_partition_statement.h"

static const Interval no_time = {0};

/*
 * A key's modifier rounds bounds: numeric(10) has no steps of 1.4.  From an origin that is not
 * rounded, all bounds are values of the type if the first one is.
 */
void
la_interval_check_steps(const LaIntervalGrid *grid)
{
	for (int i = 0; i < grid->count; i++)
	{
		const LaPartitionSeries *series = grid->segments[i].series;
		char	   *first = la_partition_series_bound(series, 1);
		LaIntervalBound bound = la_interval_grid_bound(grid, first);

		if (series->key_type == UUIDOID && series->time_step.time % 1000 != 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("the step of partitions by uuid must be of whole milliseconds")));
		/* It is another text where the key rounds it. */
		if (first != bound.text)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("the step of partitions is too fine for the type of the key"),
					 errdetail("Bound %s would be %s.", first, bound.text),
					 errhint("Choose a step that the type of the key does not round.")));
	}
	/* Steps of times may be so long that the range of this moment has no end. */
	if (la_interval_grid_is_time(grid->key_type))
	{
		LaIntervalBound now =
			la_interval_grid_bound(grid,
								   la_partition_series_at_moment(grid->key_type,
																 GetCurrentTimestamp()));

		(void) la_interval_grid_find(grid, &now);
	}
}

/*
 * Names, tablespace, storage, as they would be those of some partition.
 */
void
la_interval_check_options(const LaIntervalPolicy *policy, const LaIntervalGrid *grid)
{
	LaPartitionRequest request = {
		.parent = policy->parent,
		.series = grid->segments[0].series,
		.tablespace = policy->tablespace,
		.storage = policy->storage,
	};
	char	   *name;
	Datum		toast_options;

	if (policy->names != NULL && strstr(policy->names, "{bound}") == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid pattern of names: \"%s\"", policy->names),
				 errdetail("Partitions made by interval differ in \"{bound}\" only.")));
	name = la_partition_name(policy->names, get_rel_name(policy->parent),
							 request.series, 0);
	(void) la_partition_statement_storage(&request, name, &toast_options);
	if (policy->tablespace != NULL)
		la_partition_statement_check_tablespace(get_tablespace_oid(policy->tablespace, false));
	if (policy->analyze_every != NULL &&
		DatumGetInt32(DirectFunctionCall2(interval_cmp,
										  IntervalPGetDatum(policy->analyze_every),
										  IntervalPGetDatum(&no_time))) <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must be greater than zero",
						"analyze_every")));
}
