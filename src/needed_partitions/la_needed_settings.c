/*-------------------------------------------------------------------------
 *
 * la_needed_settings.c
 *	  settings of partitions that are created for rows
 *
 * A setting and no column of the policy: whether a slip in a row may make a partition is a
 * question of who writes, a bulk load or an application, not of the table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "needed_partitions/la_needed_settings.h"

bool		la_enable_interval_creation = false;

const LaSetting la_needed_settings[] = {
	{
		.name = "pg_lookahead.enable_interval_creation",
		.summary = "Enables creating a partition that a row needs, where the table has an interval policy.",
		.flag = &la_enable_interval_creation,
		.context = PGC_USERSET,
		.flags = GUC_EXPLAIN,
	},
	{0}
};
