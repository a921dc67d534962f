/*-------------------------------------------------------------------------
 *
 * la_needed_request.c
 *	  a session asks for a partition, and waits for it
 *
 * A partition that is there although the row's transaction is rolled back has to be made by another
 * transaction, so by another process: core refuses to create one of a table that a
 * statement of the same session is using.
 *
 * Who asks has a lock of the table: of those who need the same partition one asks, while the
 * others wait and find it.  It has one of LA_NEEDED_WORKERS locks of the database, too, so
 * there are never more workers.
 *
 * The worker has a lock, and the session waits for that: the deadlock detector sees who waits
 * for whom, and lock_timeout counts.  Until the worker has it, it waits for nobody but in order
 * to start and connect; that has a limit here.
 *
 * Reads BackgroundWorker of bgworker.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "intervals/la_interval_state.h"
#include "la_background.h"
#include "needed_partitions/la_needed_request.h"

/* How many partitions are created at once in a database.  Arbitrary. */
#define LA_NEEDED_WORKERS 3

/* How long a worker has time to start and connect.  Arbitrary, and much more than it needs. */
#define CONNECT_MS 10000

/* Milliseconds after which a worker is tried again where none was free.  Arbitrary. */
#define RETRY_MS 50

/* Whose lock it is: of those who need partitions of a table, of those who ask, or of a worker. */
enum
{
	OF_TABLE = 1,
	OF_ASKING = 2,
	OF_WORKER = 3
};

static void
table_tag(LOCKTAG *tag, Oid table)
{
	SET_LOCKTAG_ADVISORY(*tag, MyDatabaseId, OF_TABLE, table, LA_LOCK_OF_CREATION);
}

/*
 * Others who need a partition of the table wait until la_needed_request_end(), or the end of
 * the transaction.  False for who was one of them, once: it may have got a partition.  All of
 * them go on at once, since each has to read the bounds of all partitions again.
 */
bool
la_needed_request_begin(Oid table, bool has_waited)
{
	LOCKTAG		tag;

	table_tag(&tag, table);
	if (LockAcquire(&tag, ExclusiveLock, false, !has_waited) != LOCKACQUIRE_NOT_AVAIL)
		return true;
	(void) LockAcquire(&tag, ShareLock, false, false);
	LockRelease(&tag, ShareLock, false);
	return false;
}

void
la_needed_request_end(Oid table)
{
	LOCKTAG		tag;

	table_tag(&tag, table);
	LockRelease(&tag, ExclusiveLock, false);
}

/*
 * One that is free, or the one whose turn it is by the table.
 */
static void
lock_asking(LOCKTAG *tag, Oid table)
{
	for (uint32 i = 0; i < LA_NEEDED_WORKERS; i++)
	{
		SET_LOCKTAG_ADVISORY(*tag, MyDatabaseId, OF_ASKING,
							 (table + i) % LA_NEEDED_WORKERS, LA_LOCK_OF_CREATION);
		if (LockAcquire(tag, ExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL)
			return;
	}
	(void) LockAcquire(tag, ExclusiveLock, false, false);
}

/*
 * The lock that a worker has while it works for this request.
 */
void
la_needed_worker_tag(LOCKTAG *tag, dsm_handle request)
{
	SET_LOCKTAG_ADVISORY(*tag, MyDatabaseId, OF_WORKER, request, LA_LOCK_OF_CREATION);
}

/*
 * pg_on_exit_callback: an error, or the end of the session.
 */
static void
end_worker(int code, Datum worker)
{
	TerminateBackgroundWorker((BackgroundWorkerHandle *) DatumGetPointer(worker));
}

/*
 * Waits for what is new, so many milliseconds at most.  False once it has taken too long.
 */
static bool
wait_for_news(TimestampTz begin, int most)
{
	static uint32 wait_event = 0;

	if (TimestampDifferenceExceeds(begin, GetCurrentTimestamp(), CONNECT_MS))
		return false;
	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("PgLookaheadIntervalCreation");
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 most, wait_event);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	return true;
}

static BackgroundWorkerHandle *
start_worker(dsm_segment *segment)
{
	TimestampTz begin = GetCurrentTimestamp();
	BackgroundWorkerHandle *handle;
	BackgroundWorker worker = la_background_worker("pg_lookahead interval creation",
												   "la_needed_worker_main");

	worker.bgw_main_arg = UInt32GetDatum(dsm_segment_handle(segment));
	worker.bgw_notify_pid = MyProcPid;
	while (!RegisterDynamicBackgroundWorker(&worker, &handle))
	{
		if (!wait_for_news(begin, RETRY_MS))
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("no background worker is free to create a partition that a row needs"),
					 errhint("Consider increasing the configuration parameter \"%s\".",
							 "max_worker_processes")));
	}
	return handle;
}

/*
 * Until the worker has answered.
 */
static void
await_answer(dsm_segment *segment, BackgroundWorkerHandle *worker)
{
	LaNeededRequest *request = dsm_segment_address(segment);
	TimestampTz begin = GetCurrentTimestamp();
	pid_t		pid;
	LOCKTAG		tag;

	/* Until the worker has its lock, or has ended. */
	while (pg_atomic_read_u32(&request->state) == LA_NEEDED_ASKED &&
		   GetBackgroundWorkerPid(worker, &pid) != BGWH_STOPPED)
	{
		if (!wait_for_news(begin, CONNECT_MS))
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("the background worker that is to create a partition of \"%s\" did not begin in time",
							get_rel_name(request->table))));
	}
	la_needed_worker_tag(&tag, dsm_segment_handle(segment));
	(void) LockAcquire(&tag, ShareLock, false, false);
	LockRelease(&tag, ShareLock, false);
	if (pg_atomic_read_u32(&request->state) != LA_NEEDED_DONE)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the background worker that was to create a partition of \"%s\" has died",
						get_rel_name(request->table)),
				 errhint("More details may be available in the server log.")));
	pg_read_barrier();
}

/*
 * Whether the same row may succeed the next time.
 */
static bool
is_transient(int sqlstate)
{
	switch (ERRCODE_TO_CATEGORY(sqlstate))
	{
		case ERRCODE_TRANSACTION_ROLLBACK:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_SYSTEM_ERROR:
		case ERRCODE_INTERNAL_ERROR:
			return true;
		default:
			return sqlstate == ERRCODE_LOCK_NOT_AVAILABLE;
	}
}

/*
 * The worker's error, for a hint.
 */
static const char *
refusal(const LaNeededRequest *request)
{
	const char *detail = request->detail;
	const char *hint = request->hint;

	/* A sentence ends with its point, the hint is followed by one. */
	return psprintf("%s%s%s%s%.*s", request->message,
					*detail == '\0' ? "" : ". ", detail,
					*hint == '\0' ? "" : *detail == '\0' ? ". " : " ",
					(int) Max((int) strlen(hint) - 1, 0), hint);
}

/*
 * Has the partition created that this value of the key needs.  Throws what may be otherwise the
 * next time.
 */
LaNeededAnswer
la_needed_request(Oid table, const char *value, int created)
{
	Size		size = offsetof(LaNeededRequest, value) + strlen(value) + 1;
	LaNeededAnswer answer = {0};
	dsm_segment *segment;
	LaNeededRequest *request;
	BackgroundWorkerHandle *worker;
	LOCKTAG		tag;

	lock_asking(&tag, table);
	segment = dsm_create(size, 0);
	request = dsm_segment_address(segment);
	memset(request, 0, offsetof(LaNeededRequest, value));
	pg_atomic_init_u32(&request->state, LA_NEEDED_ASKED);
	request->database = MyDatabaseId;
	request->table = table;
	request->session = MyProcNumber;
	request->created = created;
	strcpy(request->value, value);
	worker = start_worker(segment);
	PG_ENSURE_ERROR_CLEANUP(end_worker, PointerGetDatum(worker));
	{
		await_answer(segment, worker);
	}
	PG_END_ENSURE_ERROR_CLEANUP(end_worker, PointerGetDatum(worker));
	LockRelease(&tag, ExclusiveLock, false);
	if (request->sqlstate != 0 && is_transient(request->sqlstate))
		ereport(ERROR,
				(errcode(request->sqlstate),
				 errmsg("could not create a partition of \"%s\" that a row needs: %s",
						get_rel_name(request->table), request->message),
				 *request->detail == '\0' ? 0
				 : errdetail_internal("%s", request->detail),
				 errhint("Repeat the transaction, or have partitions created ahead of time.")));
	if (request->sqlstate != 0)
		answer.refusal = refusal(request);
	answer.is_created = request->is_created;
	dsm_detach(segment);
	return answer;
}
