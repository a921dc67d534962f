/*-------------------------------------------------------------------------
 *
 * la_interval_create.c
 *	  creates the partitions that a policy wants
 *
 * What is missing is found out under an AccessShareLock, so that where nothing
 * is nobody is disturbed.  That lock is given up before the stronger one is
 * taken, under which everything is checked again (la_partition_create.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_inherits.h"
#include "common/int.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "intervals/la_interval_create.h"
#include "intervals/la_interval_old.h"
#include "intervals/la_interval_outlook.h"
#include "intervals/la_interval_owner.h"
#include "la_sql_function.h"
#include "partitions/la_partition_create.h"
#include "partitions/la_partition_way.h"

/*
 * How many partitions are created in a transaction while others use the table.  A batch takes
 * some tenths of a second, in which VACUUM, ANALYZE and changes of the table wait, and writers
 * of the tables at the other ends of its foreign keys.  Arbitrary.
 */
#define MOST_TOGETHER 100

/*
 * The lock of the table with which partitions are to be created.  Where there is no way beside
 * writers it is the strongest one: that functions of users would run is not seen by the way that
 * is taken then (la_partition_create.c).
 */
static LOCKMODE
lock_needed(Oid parent)
{
	LaPartitionRequest request = {.parent = parent};
	const char *reason;

	request.way = la_partition_way_beside_writers(&request, &reason);
	return request.way == LA_PARTITION_AUTO ? AccessExclusiveLock
		: la_partition_lock_needed(&request);
}

/*
 * Finds out what is missing, as the table's owner.  With the strongest lock each partition has a
 * transaction of its own.
 */
void
la_interval_create_find_missing(LaIntervalWanted *wanted,
								const LaIntervalPolicy *policy, TimestampTz now)
{
	LaIntervalOutlook outlook;
	Relation	parent = la_interval_grid_open(policy->parent);

	memset(wanted, 0, sizeof(*wanted));
	la_interval_outlook_take(&outlook, policy, parent, now);
	table_close(parent, AccessShareLock);
	wanted->series = outlook.missing;
	wanted->why = outlook.why;
	if (wanted->series == NIL)
		return;
	wanted->lock = lock_needed(policy->parent);
	wanted->batch = wanted->lock == ShareUpdateExclusiveLock ? MOST_TOGETHER : 1;
}

static void
take_off(LaIntervalWanted *wanted, const LaPartitionSeries *series)
{
	if (wanted->result.next < series->count)
		return;
	wanted->series = list_delete_first(wanted->series);
	memset(&wanted->result, 0, sizeof(wanted->result));
}

static LaPartitionRequest
request_of(const LaIntervalPolicy *policy, const LaPartitionSeries *series)
{
	return (LaPartitionRequest)
	{
		.parent = policy->parent,
			.series = series,
			.names = policy->names,
			.tablespace = policy->tablespace,
			.storage = policy->storage,
	};
}

/*
 * By the fastest way during which others go on writing, where there is one.
 */
static void
create_series(const LaIntervalPolicy *policy, const LaPartitionSeries *series,
			  int limit, LaPartitionResult *result)
{
	LaPartitionRequest request = request_of(policy, series);
	const char *reason;

	request.way = la_partition_way_beside_writers(&request, &reason);
	la_partition_create(&request, limit, limit > 1, result);
}

/*
 * Creates the first of what is missing still, and takes it from the list.  As the
 * table's owner; the parent is locked.  Nothing is created where others have changed the table so
 * that a stronger lock is needed by now: the next step begins with that one, and is not a deadlock
 * of whoever else has a weaker one and wants more.
 */
void
la_interval_create_batch(LaIntervalWanted *wanted,
						 const LaIntervalPolicy *policy)
{
	const LaPartitionSeries *series = linitial(wanted->series);
	LOCKMODE	needed = wanted->lock == AccessExclusiveLock ? AccessExclusiveLock
		: lock_needed(policy->parent);

	if (needed > wanted->lock)
	{
		wanted->lock = needed;
		wanted->batch = 1;
		return;
	}
	create_series(policy, series, wanted->batch, &wanted->result);
	take_off(wanted, series);
}

/*
 * After an error of la_interval_create_batch(): whether the others can be created all the same.
 * One by one, to begin with; then without the one at which a row of the default partition or a
 * relation of this name is in the way.
 */
bool
la_interval_create_pass_over(LaIntervalWanted *wanted, const ErrorData *error)
{
	bool		was_together = wanted->batch > 1;

	if (error->sqlerrcode != ERRCODE_CHECK_VIOLATION &&
		error->sqlerrcode != ERRCODE_DUPLICATE_TABLE &&
		error->sqlerrcode != ERRCODE_DUPLICATE_OBJECT)
		return false;
	wanted->batch = 1;
	if (!was_together)
	{
		wanted->result.next++;
		take_off(wanted, linitial(wanted->series));
	}
	return true;
}

/*
 * Refuses values that are far from those that the table has partitions for.
 */
static void
check_distance(const LaIntervalPolicy *policy, const LaIntervalGrid *grid,
			   const LaIntervalPartitions *all, const LaIntervalBound *value)
{
	if (!la_interval_create_reaches(policy, grid, all, value))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("value %s is too far from the other partitions of \"%s\"",
						value->text, get_rel_name(policy->parent)),
				 errdetail("It is more than %d steps from each.",
						   policy->max_distance),
				 errhint("Create the partition by hand, or call pg_lookahead_set_interval() with another \"max_distance\".")));
}

static void
refuse_old(const LaIntervalPolicy *policy, const LaIntervalBound *value,
		   const LaIntervalPartition *source, const char *limit)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("value %s of \"%s\" would be in a partition that the retention makes old",
					value->text, get_rel_name(policy->parent)),
			 source == NULL
			 ? errdetail("It would end by %s, which is %s ago.", limit, policy->retention)
			 : errdetail("It would end by %s, which is %s below the last partition in use, \"%s\".",
						 limit, policy->retention, get_rel_name(source->relation)),
			 errhint("Call pg_lookahead_set_interval() with another \"retention\".")));
}

static void
refuse_behind_gap(const LaIntervalPolicy *policy, const LaIntervalBound *value, bool is_known)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("value %s is after a gap behind the last partition in use of \"%s\"",
					value->text, get_rel_name(policy->parent)),
			 is_known
			 ? errdetail("By the retention, its row would make other partitions old.")
			 : errdetail("Somebody has locked one that may be it."),
			 errhint("Correct the value, or create the partitions before it by hand.")));
}

/*
 * Refuses a range that the next maintenance would take out, and one whose rows would have it
 * take others out.  Of numbers, ranges follow each other, each of which makes others old; but
 * one that is a slip would make too many old.
 *
 * What may be counts: the last partition in use is one that has pages, whoever sees their rows,
 * and where there is none the last of all, which may be about to get some.  So no row is looked
 * at, under the lock that is held.
 */
static void
check_retention(const LaIntervalPolicy *policy, const LaIntervalGrid *grid,
				const LaIntervalPartitions *all, const LaIntervalRange *range,
				const LaIntervalBound *value)
{
	bool		is_time = la_interval_grid_is_time(grid->key_type);
	const LaIntervalPartition *last = NULL;
	const LaIntervalPartition *maybe = NULL;
	LaIntervalPlace place;
	const char *limit;

	if (policy->retention == NULL || (!is_time && all->count == 0))
		return;
	if (!is_time)
	{
		last = la_interval_partitions_last_used(all, &maybe);
		if (maybe == NULL)
			last = maybe = &all->partitions[all->count - 1];
	}
	if (la_interval_old_has(policy, grid, range, maybe, &limit))
		refuse_old(policy, value, maybe, limit);
	if (is_time)
		return;
	place = la_interval_partitions_place(all, grid, range, last, maybe);
	if (place != LA_PLACE_FOLLOWS)
		refuse_behind_gap(policy, value, place == LA_PLACE_BEHIND_GAP);
}

/*
 * Whether the value has no partition; then the range that it needs.
 */
static bool
find_missing_range(const LaIntervalPolicy *policy, char *value, LaIntervalRange *range)
{
	Relation	parent = la_interval_grid_open(policy->parent);
	LaIntervalGrid *grid = la_interval_grid_make(policy, parent);
	LaIntervalPartitions *all = la_interval_partitions_read(parent);
	const LaIntervalPartition *present;
	LaIntervalBound bound;

	if (value == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("a row of \"%s\" has no partition", get_rel_name(policy->parent)),
				 errdetail("Its partition key is null.")));
	bound = la_interval_grid_bound(grid, value);
	if (!la_interval_grid_is_finite(grid->key_type, &bound))
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("a row of \"%s\" has no partition", get_rel_name(policy->parent)),
				 errdetail("Its partition key is %s, from which no steps can be counted.", value)));
	*range = la_interval_grid_find(grid, &bound);
	present = la_interval_partitions_find(all, grid, &bound, range);
	if (present != NULL && PartitionHasPendingDetach(present->relation))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("partition \"%s\" of \"%s\" is being detached",
						get_rel_name(present->relation), get_rel_name(policy->parent)),
				 errhint("Use ALTER TABLE ... DETACH PARTITION ... FINALIZE to complete that.")));
	if (present == NULL)
	{
		if (OidIsValid(all->default_partition))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("no partition of \"%s\" is created for a row, because it has a default partition",
							get_rel_name(policy->parent)),
					 errhint("Have partitions created ahead of time, or detach \"%s\".",
							 get_rel_name(all->default_partition))));
		check_distance(policy, grid, all, &bound);
		check_retention(policy, grid, all, range, &bound);
	}
	table_close(parent, AccessShareLock);
	return present == NULL;
}

/*
 * A session that needs a partition for its row has the lock of writing on the
 * table already.
 */
static LaPartitionWay
need_way(const LaIntervalPolicy *policy)
{
	LaPartitionRequest request = {.parent = policy->parent};
	const char *reason;
	LaPartitionWay way = la_partition_way_beside_writers(&request, &reason);

	if (way == LA_PARTITION_AUTO)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no partition of \"%s\" can be created for a row",
						get_rel_name(policy->parent)),
				 errdetail("The reason is: %s.", reason),
				 errhint("Have partitions created ahead of time.")));
	return way;
}

/*
 * Creates the one partition of a table with a policy that this value of its
 * key needs; the text is one that la_sql_argument_text_of() has made, or NULL
 * for a null.  In a transaction, with an active snapshot; the caller need not
 * be the owner, and has to have checked that somebody may insert into the table.
 * Throws where the value is not to have a partition, and then has created
 * nothing.  False when somebody was faster.
 */
bool
la_interval_create_for(Oid parent, char *value)
{
	LaIntervalPolicy *policy = la_interval_policy_need(parent);
	LaPartitionRequest request = {.parent = parent};
	LaIntervalOwner before;
	LaIntervalRange range;
	bool		is_missing;

	la_interval_owner_begin(&before, parent, policy->time_zone);
	is_missing = find_missing_range(policy, value, &range);
	if (is_missing)
	{
		request.way = need_way(policy);
		LockRelationOid(parent, la_partition_lock_needed(&request));
		PushActiveSnapshot(GetLatestSnapshot());
		policy = la_interval_policy_lock(parent);
		if (policy != NULL && policy->time_zone != NULL)
			la_sql_argument_set("TimeZone", policy->time_zone);
		is_missing = policy != NULL && find_missing_range(policy, value, &range);
		if (is_missing)
		{
			(void) need_way(policy);
			la_interval_create_range(policy, &range);
		}
		PopActiveSnapshot();
	}
	la_interval_owner_end(&before);
	return is_missing;
}

/*
 * Are the values at most max_distance steps apart?
 */
static bool
is_near(const LaIntervalPolicy *policy, const LaIntervalGrid *grid,
		const LaIntervalBound *value, const LaIntervalBound *other)
{
	LaIntervalBound from = la_interval_grid_complete(grid->key_type, other);
	const LaPartitionSeries *series;
	int64		distance;

	if (!la_interval_grid_is_finite(grid->key_type, other))
		return false;
	series = la_interval_grid_find(grid, value).series;
	return !pg_sub_s64_overflow(la_partition_series_find(series, value->text),
								la_partition_series_find(series, from.text),
								&distance) &&
		distance <= policy->max_distance && distance >= -policy->max_distance;
}

/*
 * Whether a value is near those that the table has partitions for, or of times this moment: a
 * slip would leave partitions that nobody wants.
 */
bool
la_interval_create_reaches(const LaIntervalPolicy *policy, const LaIntervalGrid *grid,
						   const LaIntervalPartitions *all, const LaIntervalBound *value)
{
	LaIntervalBound other;
	int			after;

	if (la_interval_grid_is_time(grid->key_type))
	{
		other = la_interval_grid_bound(grid,
									   la_partition_series_at_moment(grid->key_type,
																	 GetCurrentTimestamp()));
		if (is_near(policy, grid, value, &other))
			return true;
	}
	else if (all->count == 0)
	{
		other = la_interval_grid_bound(grid, policy->origin);
		if (is_near(policy, grid, value, &other))
			return true;
	}
	after = la_interval_partitions_search(all, grid, value);
	return (after > 0 && is_near(policy, grid, value, &all->partitions[after - 1].upper)) ||
		(after < all->count && is_near(policy, grid, value, &all->partitions[after].lower));
}

static LaPartitionSeries *
series_of(const LaIntervalRange *range)
{
	return la_partition_series_between(range->series, range->lower.text, range->upper.text);
}

/*
 * The name and the bound that the partition of a range will have, by which its rows are known.
 * Throws where it cannot be created.  The parent is locked.
 */
const LaPlannedPartition *
la_interval_create_plan(const LaIntervalPolicy *policy, const LaIntervalRange *range)
{
	LaPartitionRequest request = request_of(policy, series_of(range));
	Relation	parent = table_open(policy->parent, NoLock);
	const LaPartitionPlan *plan = la_partition_plan(&request, parent, 0, 1);

	table_close(parent, NoLock);
	return &plan->missing[0];
}

/*
 * Creates the partition of a range that no other one has.  As the table's owner; the parent is
 * locked.
 */
void
la_interval_create_range(const LaIntervalPolicy *policy, const LaIntervalRange *range)
{
	LaPartitionResult result = {0};

	create_series(policy, series_of(range), 1, &result);
}
