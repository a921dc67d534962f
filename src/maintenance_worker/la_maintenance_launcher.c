/*-------------------------------------------------------------------------
 *
 * la_maintenance_launcher.c
 *	  starts workers that maintain interval partitions
 *
 * The launcher is connected to no database.  It goes in rounds, an interval apart: in each one
 * it starts a worker for every database that is to be looked at, a few at once.  A worker
 * maintains what is due and ends, so it is hardly ever in anybody's way; whether there is a
 * policy at all, it tells by its report.  A database without one is looked at rarely, one whose
 * worker died ever more rarely.
 *
 * While a worker is in a database, nobody can drop or rename that, move it or take it as a
 * template: core waits five seconds and gives up (relies on CountOtherDBBackends() in
 * procarray.c).  Such a command has a lock on the database that keeps others from connecting,
 * by which the launcher notices it, and ends the worker.
 *
 * The first round comes an interval after the launcher: a server that crashes because of what a
 * worker does has some time in between.
 *
 * Core registers static background workers only while it loads shared_preload_libraries.  So
 * the setting decides at the start of the server whether there is a launcher, and a reload only
 * how often that looks; a reload that would need one says so in the log.
 *
 * While it is at work the launcher has an advisory lock, which the view of policies shows.  Mirrors
 * AutoVacLauncherMain() and get_database_list() in autovacuum.c.
 *
 * Reads BackgroundWorker of bgworker.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/sinval.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "intervals/la_interval_maintenance.h"
#include "la_background.h"
#include "maintenance_worker/la_maintenance_launcher.h"
#include "maintenance_worker/la_maintenance_report.h"

/* Seconds after which core starts a launcher that died.  As core's logical replication launcher. */
#define RESTART_SECONDS 5

/* How many rounds a database without a policy is passed over.  Arbitrary. */
#define PAUSE_WITHOUT_POLICY 9

/* After so many deaths of workers the pause does not get longer: 63 rounds.  Arbitrary. */
#define MOST_DOUBLINGS 6

/* Milliseconds between two looks whether a running worker is in the way.  Arbitrary. */
#define LOOK_MS 200

/* Milliseconds after which a worker is tried again where none was free.  Arbitrary. */
#define RETRY_MS 5000

typedef struct LaMaintainedDatabase
{
	Oid			oid;
	bool		is_there;		/* in this round */
	bool		is_pending;		/* is to get a worker */
	int			pause;			/* rounds in which it gets none */
	int			failures;		/* workers that died, since one that did not */
	Oid			table;			/* that the last one had begun, or InvalidOid */
} LaMaintainedDatabase;

typedef struct LaMaintenanceSlot
{
	Oid			database;
	BackgroundWorkerHandle *handle; /* or NULL: nobody runs */
	bool		is_ended;		/* by us */
} LaMaintenanceSlot;

/* Seconds, 0 for never. */
static int	interval = 0;

/* Whether this server has started a launcher. */
static bool has_launcher = false;

static List *databases = NIL;
static LaMaintenanceSlot slots[LA_MAINTENANCE_WORKERS];
static LaMaintenanceReport *reports;
static TimestampTz next_round;
static bool is_full = false;	/* no worker was free in this round */
static bool told_full = false;	/* and that was told */

/*
 * GucIntAssignHook: in the postmaster, when the configuration is reloaded.
 */
static void
tell_restart(int value, void *extra)
{
	if (value > 0 && IsPostmasterEnvironment && !IsUnderPostmaster &&
		!process_shared_preload_libraries_in_progress &&
		!has_launcher)
		ereport(LOG,
				(errmsg("pg_lookahead.maintenance_interval was 0 when the server started, so there is no launcher"),
				 errhint("Restart the server.")));
}

/*
 * Has the launcher started with the server, if maintenance is on.
 */
void
la_maintenance_launcher_register(void)
{
	BackgroundWorker worker;

	if (!process_shared_preload_libraries_in_progress ||
		interval == 0 || IsBinaryUpgrade)
		return;
	worker = la_background_worker("pg_lookahead maintenance launcher",
								  "la_maintenance_launcher_main");
	worker.bgw_restart_time = RESTART_SECONDS;
	RegisterBackgroundWorker(&worker);
	has_launcher = true;
}

/*
 * Nobody looks after workers when the launcher is gone.
 */
static void
end_workers(int code, Datum arg)
{
	for (int i = 0; i < LA_MAINTENANCE_WORKERS; i++)
	{
		if (slots[i].handle != NULL)
			TerminateBackgroundWorker(slots[i].handle);
	}
}

/*
 * With status 0 core would not start the launcher again.  After a reload all databases are
 * looked at; a worker that is running has made its list before, so it is followed by another
 * one.
 */
static void
take_interrupts(void)
{
	CHECK_FOR_INTERRUPTS();
	if (ShutdownRequestPending)
		proc_exit(1);
	ProcessCatchupInterrupt();
	if (!ConfigReloadPending)
		return;
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	next_round = GetCurrentTimestamp();
	foreach_ptr(LaMaintainedDatabase, database, databases)
	{
		database->pause = 0;
		database->is_pending = true;
	}
}

/*
 * Of which pg_stat_activity shows when it has begun, not when the launcher has.
 */
static void
begin_transaction(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
}

/*
 * Has the advisory lock while maintenance is on.
 */
static void
show_sign(void)
{
	static bool is_shown = false;
	LOCKTAG		tag;

	if (is_shown == (interval > 0))
		return;
	is_shown = !is_shown;
	SET_LOCKTAG_ADVISORY(tag, InvalidOid, 0, 0, LA_LOCK_OF_MAINTENANCE);
	begin_transaction();
	if (is_shown)
		(void) LockAcquire(&tag, ExclusiveLock, true, true);
	else
		LockRelease(&tag, ExclusiveLock, true);
	CommitTransactionCommand();
}

static LaMaintainedDatabase *
find_database(Oid oid)
{
	foreach_ptr(LaMaintainedDatabase, database, databases)
	{
		if (database->oid == oid)
			return database;
	}
	return NULL;
}

/*
 * A worker has ended.  One that died says by that nothing about policies.
 */
static void
settle_worker(LaMaintenanceSlot *slot, const LaMaintenanceReport *report)
{
	LaMaintainedDatabase *database = find_database(slot->database);

	if (database == NULL || (slot->is_ended && !report->is_done))
		return;
	database->table = report->table;
	if (report->is_done)
	{
		database->failures = 0;
		database->pause = report->has_policy ? 0 : PAUSE_WITHOUT_POLICY;
		return;
	}
	database->failures = Min(database->failures + 1, MOST_DOUBLINGS);
	database->pause = (1 << database->failures) - 1;
}

static void
settle_ended(void)
{
	for (int i = 0; i < LA_MAINTENANCE_WORKERS; i++)
	{
		LaMaintenanceSlot *slot = &slots[i];
		pid_t		pid;

		if (slot->handle == NULL ||
			GetBackgroundWorkerPid(slot->handle, &pid) != BGWH_STOPPED)
			continue;
		settle_worker(slot, &reports[i]);
		pfree(slot->handle);
		slot->handle = NULL;
	}
}

/*
 * Those to which sessions can connect and in which they work: policies of a template are for
 * its copies.
 */
static void
list_databases(void)
{
	Relation	catalog;
	SysScanDesc scan;
	HeapTuple	tuple;

	foreach_ptr(LaMaintainedDatabase, database, databases)
		database->is_there = false;
	begin_transaction();
	catalog = table_open(DatabaseRelationId, AccessShareLock);
	scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		LaMaintainedDatabase *database = find_database(form->oid);

		if (!form->datallowconn || form->datistemplate ||
			database_is_invalid_form(form))
			continue;
		if (database == NULL)
		{
			MemoryContext before = MemoryContextSwitchTo(TopMemoryContext);

			database = palloc0_object(LaMaintainedDatabase);
			database->oid = form->oid;
			databases = lappend(databases, database);
			MemoryContextSwitchTo(before);
		}

		database->is_there = true;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	CommitTransactionCommand();
}

static bool
has_worker(Oid database)
{
	for (int i = 0; i < LA_MAINTENANCE_WORKERS; i++)
	{
		if (slots[i].handle != NULL && slots[i].database == database)
			return true;
	}
	return false;
}

static void
begin_round(void)
{
	next_round = TimestampTzPlusSeconds(GetCurrentTimestamp(), interval);
	told_full = is_full;
	is_full = false;
	list_databases();
	foreach_ptr(LaMaintainedDatabase, database, databases)
	{
		if (!database->is_there)
		{
			databases = foreach_delete_current(databases, database);
			pfree(database);
			continue;
		}
		if (!has_worker(database->oid))
			database->is_pending = database->pause == 0;
		if (database->pause > 0)
			database->pause--;
	}
}

static LaMaintainedDatabase *
next_pending(void)
{
	foreach_ptr(LaMaintainedDatabase, database, databases)
	{
		if (database->is_pending && !has_worker(database->oid))
			return database;
	}
	return NULL;
}

/*
 * Takes, for a moment, the lock that whoever connects to a database takes of it.  Relies on
 * InitPostgres() in postinit.c.
 */
static bool
can_connect(Oid database)
{
	bool		can;

	begin_transaction();
	can = ConditionalLockSharedObject(DatabaseRelationId, database, 0, RowExclusiveLock) &&
		SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(database));
	CommitTransactionCommand();
	return can;
}

/*
 * Starts a worker in a database, unless it could not connect.  Returns false if core has no
 * slot for it.
 */
static bool
start_for_database(LaMaintainedDatabase *database, int i)
{
	LaMaintenanceTask task = {
		.database = database->oid,.last = database->table,.slot = i
	};
	BackgroundWorker worker = la_background_worker("pg_lookahead maintenance worker",
												   "la_maintenance_worker_main");

	if (!can_connect(database->oid))
		return true;
	snprintf(worker.bgw_name, BGW_MAXLEN,
			 "pg_lookahead maintenance worker for database %u", database->oid);
	memcpy(worker.bgw_extra, &task, sizeof(task));
	worker.bgw_notify_pid = MyProcPid;
	memset(&reports[i], 0, sizeof(reports[i]));
	if (!RegisterDynamicBackgroundWorker(&worker, &slots[i].handle))
	{
		slots[i].handle = NULL;
		/* Once, until there was one for everybody in a round. */
		if (!told_full)
			ereport(LOG,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("no background worker is free to maintain interval partitions"),
					 errhint("Consider increasing the configuration parameter \"%s\".",
							 "max_worker_processes")));
		is_full = told_full = true;
		return false;
	}
	slots[i].database = database->oid;
	slots[i].is_ended = false;
	return true;
}

static int
find_free_slot(void)
{
	for (int i = 0; i < LA_MAINTENANCE_WORKERS; i++)
	{
		if (slots[i].handle == NULL)
			return i;
	}
	return -1;
}

/*
 * What does not get a worker now is pending until there is one.  Who got one goes behind all
 * others, so that everybody's turn comes even where rounds take longer than the interval.
 */
static void
start_pending(void)
{
	LaMaintainedDatabase *database;

	while (interval > 0 && (database = next_pending()) != NULL)
	{
		int			i = find_free_slot();

		if (i < 0 || !start_for_database(database, i))
			return;
		database->is_pending = false;
		databases = lappend(list_delete_ptr(databases, database), database);
	}
}

/*
 * Ends workers that are in the way of a command on their whole database.
 */
static void
leave_locked_databases(void)
{
	for (int i = 0; i < LA_MAINTENANCE_WORKERS; i++)
	{
		LaMaintenanceSlot *slot = &slots[i];

		if (slot->handle == NULL || slot->is_ended || can_connect(slot->database))
			continue;
		TerminateBackgroundWorker(slot->handle);
		slot->is_ended = true;
	}
}

/*
 * Until a worker ends, the next round, or a signal.
 */
static void
await_work(void)
{
	static uint32 wait_event = 0;
	int			events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH;
	long		timeout = -1;

	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("PgLookaheadMaintenanceMain");
	if (interval > 0)
		timeout = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), next_round);
	for (int i = 0; i < LA_MAINTENANCE_WORKERS; i++)
	{
		if (slots[i].handle != NULL)
			timeout = timeout < 0 ? LOOK_MS : Min(timeout, LOOK_MS);
	}
	/* Whose worker it is that ends next, nobody tells. */
	if (interval > 0 && next_pending() != NULL)
		timeout = Min(timeout, RETRY_MS);
	if (timeout >= 0)
		events |= WL_TIMEOUT;
	(void) WaitLatch(MyLatch, events, timeout, wait_event);
	ResetLatch(MyLatch);
}

/*
 * The launcher's process.
 */
void
la_maintenance_launcher_main(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGINT, SIG_IGN);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	MemoryContextSwitchTo(TopMemoryContext);
	reports = la_maintenance_reports();
	before_shmem_exit(end_workers, (Datum) 0);
	next_round = TimestampTzPlusSeconds(GetCurrentTimestamp(), interval);
	for (;;)
	{
		TimestampTz now;

		take_interrupts();
		show_sign();
		settle_ended();
		now = GetCurrentTimestamp();
		/* Also where somebody has set the clock back. */
		if (interval > 0 &&
			(now >= next_round || next_round > TimestampTzPlusSeconds(now, interval)))
			begin_round();
		start_pending();
		leave_locked_databases();
		await_work();
	}
}

const LaSetting la_maintenance_settings[] = {
	{
		.name = "pg_lookahead.maintenance_interval",
		.summary = "Sets the time between two looks for interval policies whose maintenance is due.",
		.detail = "0 leaves maintenance to those who call it.",
		.number = &interval,
		.least = 0,
		.most = SECS_PER_DAY,
		.context = PGC_SIGHUP,
		.flags = GUC_UNIT_S,
		.assign = tell_restart,
	},
	{0}
};
