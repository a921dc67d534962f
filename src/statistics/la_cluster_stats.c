/*-------------------------------------------------------------------------
 *
 * la_cluster_stats.c
 *	  counts of the whole cluster, in core's cumulative statistics
 *
 * A fixed-numbered custom kind (PgStat_KindInfo): counts are pending in each
 * process, without any lock, until pgstat_report_stat() takes them to shared
 * memory between transactions or at the end of the process (relies on
 * pgstat_report_stat() in pgstat.c).
 * Core registers kinds only for libraries that come with the server, so
 * without shared_preload_libraries there are no counts of the cluster.
 *
 * The kind is not written to core's statistics file.  It must not be: a
 * server that starts without the library finds a kind in the file that it
 * does not know, and then discards the statistics of everybody (relies on
 * pgstat_read_statsfile() in pgstat.c).  So our counts begin with each start of
 * the server, which stats_reset says.
 *
 * Nothing being stored, the number of the kind has a meaning only while the
 * server runs, and we take the highest one that is free when all libraries are
 * loaded.  24 is never taken, because core keeps it for experiments.  When
 * another library has taken all numbers, the view shows sessions; that is no
 * reason to refuse a start.
 *
 * Reads PgStat_KindInfo of pgstat_internal.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lwlock.h"
#include "utils/pgstat_internal.h"
#include "utils/timestamp.h"

#include "statistics/la_cluster_stats.h"

/* What core copies into a snapshot. */
typedef struct LaClusterStats
{
	LaTotals	totals;
	TimestampTz reset;
} LaClusterStats;

/* In shared memory. */
typedef struct LaSharedStats
{
	LWLock		lock;			/* protects stats */
	LaClusterStats stats;
} LaSharedStats;

static PgStat_Kind kind = PGSTAT_KIND_INVALID;

/* Counts of this process that are not in shared memory yet. */
static LaTotals pending;
static bool have_pending = false;

/*
 * init_shmem_cb: in the postmaster, while it creates shared memory.
 */
static void
init_shared(void *stats)
{
	LaSharedStats *shared = (LaSharedStats *) stats;

	LWLockInitialize(&shared->lock, LWTRANCHE_PGSTATS_DATA);
	memset(&shared->stats, 0, sizeof(shared->stats));
	shared->stats.reset = GetCurrentTimestamp();
}

/*
 * flush_static_cb: true when the lock was not to be had without waiting.
 */
static bool
flush_pending(bool nowait)
{
	LaSharedStats *shared = pgstat_get_custom_shmem_data(kind);

	if (!have_pending)
		return false;
	if (!nowait)
		LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	else if (!LWLockConditionalAcquire(&shared->lock, LW_EXCLUSIVE))
		return true;

	for (int f = 0; f < LA_FEATURE_COUNT; f++)
	{
		LaFeatureTotals *sum = &shared->stats.totals.features[f];

		for (int i = 0; i < LA_REASON_COUNT; i++)
			sum->nodes[i] += pending.features[f].nodes[i];
		la_counters_add(&sum->counters, &pending.features[f].counters);
	}
	LWLockRelease(&shared->lock);

	memset(&pending, 0, sizeof(pending));
	have_pending = false;
	return false;
}

/*
 * reset_all_cb.
 */
static void
reset_shared(TimestampTz ts)
{
	LaSharedStats *shared = pgstat_get_custom_shmem_data(kind);

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	memset(&shared->stats, 0, sizeof(shared->stats));
	shared->stats.reset = ts;
	LWLockRelease(&shared->lock);
}

/*
 * snapshot_cb.
 */
static void
take_snapshot(void)
{
	LaSharedStats *shared = pgstat_get_custom_shmem_data(kind);

	LWLockAcquire(&shared->lock, LW_SHARED);
	memcpy(pgstat_get_custom_snapshot_data(kind), &shared->stats,
		   sizeof(shared->stats));
	LWLockRelease(&shared->lock);
}

static const PgStat_KindInfo kind_info = {
	.name = "pg_lookahead",
	.fixed_amount = true,
	.write_to_file = false,
	.shared_size = sizeof(LaSharedStats),
	.shared_data_off = offsetof(LaSharedStats, stats),
	.shared_data_len = sizeof(LaClusterStats),
	.init_shmem_cb = init_shared,
	.flush_static_cb = flush_pending,
	.reset_all_cb = reset_shared,
	.snapshot_cb = take_snapshot,
};

/*
 * Registers our kind of statistics, when the server is just starting and all libraries are
 * loaded: one that has a fixed number finds it free, whatever the order of loading.
 * Core takes kinds while it loads them only.  It is between that and shared memory, whose size
 * comes from all kinds there are; so it is told that it is still at it.
 */
void
la_cluster_stats_register(void)
{
	bool		loading = process_shared_preload_libraries_in_progress;

	process_shared_preload_libraries_in_progress = true;
	for (PgStat_Kind free = PGSTAT_KIND_CUSTOM_MAX;
		 free >= PGSTAT_KIND_CUSTOM_MIN && kind == PGSTAT_KIND_INVALID; free--)
	{
		if (free == PGSTAT_KIND_EXPERIMENTAL ||
			pgstat_get_kind_info(free) != NULL)
			continue;
		pgstat_register_kind(free, &kind_info);
		kind = free;
	}
	process_shared_preload_libraries_in_progress = loading;
	if (kind == PGSTAT_KIND_INVALID)
		ereport(LOG,
				(errmsg("pg_lookahead found no free ID for custom cumulative statistics"),
				 errdetail("The view pg_stat_lookahead shows the counts of its own session.")));
}

/*
 * Where to add counts of this process, or NULL when the cluster does not
 * count.  The caller is going to add something.
 */
LaTotals *
la_cluster_stats_pending(void)
{
	if (kind == PGSTAT_KIND_INVALID)
		return NULL;
	have_pending = true;
	pgstat_report_fixed = true;
	return &pending;
}

/*
 * The counts of the cluster as stats_fetch_consistency wants them seen, and
 * since when they count; NULL when the cluster does not count.
 */
const LaTotals *
la_cluster_stats_fetch(TimestampTz *reset)
{
	const LaClusterStats *snapshot;

	if (kind == PGSTAT_KIND_INVALID)
		return NULL;
	pgstat_snapshot_fixed(kind);
	snapshot = pgstat_get_custom_snapshot_data(kind);
	*reset = snapshot->reset;
	return &snapshot->totals;
}

/*
 * Sets the counts of the cluster to zero.  False when it does not count.
 */
bool
la_cluster_stats_reset(void)
{
	if (kind == PGSTAT_KIND_INVALID)
		return false;
	pgstat_reset_of_kind(kind);
	return true;
}
