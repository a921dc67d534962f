/*-------------------------------------------------------------------------
 *
 * la_maintenance_report.c
 *	  what launcher and workers of maintenance tell each other
 *
 * Made by the first launcher, kept until the server stops: some bytes for each worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "la_compat.h"
#include "maintenance_worker/la_maintenance_report.h"

/*
 * Callback of GetNamedDSMSegment, in the process that makes the segment.
 */
static void
init_reports(LA_SEGMENT_INIT_PARAMETERS)
{
	memset(ptr, 0, sizeof(LaMaintenanceReport) * LA_MAINTENANCE_WORKERS);
}

/*
 * The reports of all workers, by slot.
 */
LaMaintenanceReport *
la_maintenance_reports(void)
{
	bool		found;

	return la_compat_named_segment("pg_lookahead maintenance " LA_BUILD_ID,
								   sizeof(LaMaintenanceReport) * LA_MAINTENANCE_WORKERS,
								   init_reports, &found);
}
