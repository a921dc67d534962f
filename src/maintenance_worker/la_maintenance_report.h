/*-------------------------------------------------------------------------
 *
 * la_maintenance_report.h
 *	  what launcher and workers of maintenance tell each other
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_MAINTENANCE_REPORT_H
#define LA_MAINTENANCE_REPORT_H

/*
 * How many databases are maintained at once.  As many as core's autovacuum has workers by
 * default: one that takes long keeps no others waiting, and others keep their
 * max_worker_processes.
 */
#define LA_MAINTENANCE_WORKERS 3

/* What a worker is told, in its bgw_extra. */
typedef struct LaMaintenanceTask
{
	Oid			database;
	Oid			last;			/* table to be maintained after all others, or
								 * InvalidOid */
	int			slot;			/* of the launcher, for the report */
} LaMaintenanceTask;

/*
 * What a worker tells, in shared memory.  The launcher clears it before the worker starts and
 * reads it when that has ended, so nothing protects it.
 */
typedef struct LaMaintenanceReport
{
	bool		is_done;		/* the worker came to its end */
	bool		has_policy;		/* the database has one */
	Oid			table;			/* that is being maintained, or InvalidOid */
} LaMaintenanceReport;

extern LaMaintenanceReport *la_maintenance_reports(void);

extern PGDLLEXPORT void la_maintenance_worker_main(Datum arg);

#endif							/* LA_MAINTENANCE_REPORT_H */
