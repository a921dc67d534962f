/*-------------------------------------------------------------------------
 *
 * la_maintenance_worker.c
 *	  maintains the interval partitions of a database
 *
 * Does what pg_lookahead_maintain_partitions() does, called by a superuser, of tables whose
 * maintenance is due; then it ends.  Mirrors AutoVacWorkerMain() in autovacuum.c.
 *
 * Reads BackgroundWorker of bgworker.h.
 *
 * An error that maintenance does not note, a cancel above all, ends that of one table.  What
 * ends the process is told by its report, and the next worker takes that table last.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "intervals/la_interval_maintenance.h"
#include "intervals/la_interval_owner.h"
#include "intervals/la_interval_query.h"
#include "la_background.h"
#include "maintenance_worker/la_maintenance_report.h"

/*
 * How long a step may take.  A function of a table's owner that never ends, by mistake, keeps
 * all other tables of the database waiting.  Longer than what locks a table may take at all.
 * Arbitrary.
 */
#define LONGEST_STEP "1h"

static const char *const settings[][2] = {
	{"application_name", "pg_lookahead maintenance"},
	{"lock_timeout", "0"},
	{"transaction_timeout", LONGEST_STEP},
};

/*
 * Tables that are to be maintained, in this order.
 */
static List *
list_due(Oid last, LaMaintenanceReport *report)
{
	List	   *due = NIL;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(TopMemoryContext);
	if (la_interval_query_has_tables())
	{
		report->has_policy = la_interval_policy_parents() != NIL;
		due = la_interval_due(GetCurrentTimestamp());
	}
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
maintain_table(Oid table)
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
 * Shows in pg_stat_activity and in the log what is being done.  Returns false where the
 * extension is no more.
 */
static bool
show_table(Oid table)
{
	bool		exists;
	const char *activity = NULL;

	CHECK_FOR_INTERRUPTS();
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	exists = la_interval_query_has_tables();
	if (exists && get_rel_name(table) != NULL)
		activity = psprintf("maintain partitions of %s", la_interval_owner_name(table));
	la_background_show(activity);
	CommitTransactionCommand();
	MemoryContextSwitchTo(TopMemoryContext);
	return exists;
}

/*
 * A worker's process.
 */
void
la_maintenance_worker_main(Datum arg)
{
	LaMaintenanceTask task;
	LaMaintenanceReport *report;

	memcpy(&task, MyBgworkerEntry->bgw_extra, sizeof(task));
	la_background_connect(task.database, settings, lengthof(settings));
	report = &la_maintenance_reports()[task.slot];
	foreach_oid(table, list_due(task.last, report))
	{
		if (!show_table(table))
			break;
		report->table = table;
		maintain_table(table);
		report->table = InvalidOid;
	}
	report->is_done = true;
}
