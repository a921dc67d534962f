/*-------------------------------------------------------------------------
 *
 * la_maintenance_settings.c
 *	  settings of maintenance without a session
 *
 * Core registers static background workers only while it loads shared_preload_libraries.  So
 * the setting decides at the start of the server whether there is a launcher, and a reload only
 * how often that looks; a reload that would need one says so in the log.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "maintenance_worker/la_maintenance_settings.h"

/* Seconds, 0 for never. */
int			la_maintenance_interval = 0;

/* Whether this server has started a launcher. */
bool		la_maintenance_has_launcher = false;

static void tell_restart(int interval, void *extra);

const LaSetting la_maintenance_settings[] = {
	{
		.name = "pg_lookahead.maintenance_interval",
		.summary = "Sets the time between two looks for interval policies whose maintenance is due.",
		.detail = "0 leaves maintenance to those who call it.",
		.number = &la_maintenance_interval,
		.least = 0,
		.most = SECS_PER_DAY,
		.context = PGC_SIGHUP,
		.flags = GUC_UNIT_S,
		.assign = tell_restart,
	},
	{0}
};

/*
 * GucIntAssignHook: in the postmaster, when the configuration is reloaded.
 */
static void
tell_restart(int interval, void *extra)
{
	if (interval > 0 && IsPostmasterEnvironment && !IsUnderPostmaster &&
		!process_shared_preload_libraries_in_progress &&
		!la_maintenance_has_launcher)
		ereport(LOG,
				(errmsg("pg_lookahead.maintenance_interval was 0 when the server started, so there is no launcher"),
				 errhint("Restart the server.")));
}
