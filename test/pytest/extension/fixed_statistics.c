/*
 * A library with a kind of cumulative statistics of a fixed number: the one that ours likes best.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/pgstat_internal.h"

PG_MODULE_MAGIC;

static void
ignore(void *stats)
{
}

static void
ignore_reset(TimestampTz at)
{
}

static void
ignore_snapshot(void)
{
}

static const PgStat_KindInfo info = {
	.name = "fixed_statistics",
	.fixed_amount = true,
	.shared_size = sizeof(int),
	.shared_data_len = sizeof(int),
	.init_shmem_cb = ignore,
	.reset_all_cb = ignore_reset,
	.snapshot_cb = ignore_snapshot,
};

void		_PG_init(void);

void
_PG_init(void)
{
	pgstat_register_kind(PGSTAT_KIND_CUSTOM_MAX, &info);
}
