/*-------------------------------------------------------------------------
 *
 * la_maintenance_worker.c
 *	  maintains the interval partitions of a database
 *
 * Does what pg_lookahead_maintain_partitions() does, called by a superuser, of tables whose maintenance is due; then it
 * ends.  Settings by which a session may wait too long, or be interrupted, are not those of the
 * database or a role.  Mirrors AutoVacWorkerMain() in autovacuum.c.
 *
 * Reads BackgroundWorker of bgworker.h.
 *
 * An error that maintenance does not note, a cancel above all, ends that of one table.  What ends the process is told
 * by its report, and the next worker takes that table last.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "intervals/la_interval_maintenance.h"
#include "intervals/la_interval_owner.h"
#include "intervals/la_interval_table.h"
#include "maintenance_worker/la_maintenance_report.h"
#include "maintenance_worker/la_maintenance_worker.h"

static const char *const settings[][2] = {
	{"application_name", "pg_lookahead maintenance"},
	{"default_transaction_isolation", "read committed"},
	{"idle_in_transaction_session_timeout", "0"},
	{"lock_timeout", "0"},
	{"search_path", ""},
	{"statement_timeout", "0"},
	{"transaction_timeout", "0"},
	{"zero_damaged_pages", "off"},
};

static List *list_due(Oid last, LaMaintenanceReport *report);
static void maintain(Oid table);
static bool show(Oid table);

/*
 * A worker's process.
 */
void
la_maintenance_worker_main(Datum arg)
{
	LaMaintenanceTask task;
	LaMaintenanceReport *report;

	memcpy(&task, MyBgworkerEntry->bgw_extra, sizeof(task));
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(task.database, InvalidOid, 0);
	for (int i = 0; i < lengthof(settings); i++)
		SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
	report = &la_maintenance_reports()[task.slot];
	foreach_oid(table, list_due(task.last, report))
	{
		if (!show(table))
			break;
		report->table = table;
		maintain(table);
		report->table = InvalidOid;
	}
	report->is_done = true;
}

/*
 * Tables that are to be maintained, in this order.
 */
static List *
list_due(Oid last, LaMaintenanceReport *report)
{
	List	   *due;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(TopMemoryContext);
	report->has_policy = la_interval_next_run() != DT_NOEND;
	due = la_interval_due(GetCurrentTimestamp());
	if (due != NIL)
		PreventCommandIfReadOnly("maintenance of partitions");
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(TopMemoryContext);
	if (list_member_oid(due, last))
		due = lappend_oid(list_delete_oid(due, last), last);
	return due;
}

static void
maintain(Oid table)
{
	PG_TRY();
	{
		(void) la_interval_maintain(table);
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		EmitErrorReport();
		AbortOutOfAnyTransaction();
		MemoryContextSwitchTo(TopMemoryContext);
		FlushErrorState();
		/* One that comes late is not for the next table. */
		QueryCancelPending = false;
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
}

/*
 * Shows in pg_stat_activity and in the log what is being done.  Returns false where the extension is no more.
 */
static bool
show(Oid table)
{
	bool		exists;
	char	   *activity = NULL;

	CHECK_FOR_INTERRUPTS();
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	exists = la_interval_table_exists();
	if (exists && get_rel_name(table) != NULL)
		activity = MemoryContextStrdup(TopMemoryContext,
									   psprintf("maintain partitions of %s",
												la_interval_owner_name(table)));
	CommitTransactionCommand();
	MemoryContextSwitchTo(TopMemoryContext);
	debug_query_string = activity;
	pgstat_report_activity(STATE_RUNNING, activity);
	return exists;
}
