/*-------------------------------------------------------------------------
 *
 * la_needed_worker.c
 *	  creates a partition that a session's row needs
 *
 * A process for one request, in one transaction, by the code that maintenance has
 * (la_interval_create.c): as the table's owner, beside writers.  Its locks conflict with none
 * that a session has because it writes into the table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/dsm.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "intervals/la_interval_create.h"
#include "intervals/la_interval_owner.h"
#include "la_background.h"
#include "needed_partitions/la_needed_request.h"
#include "partitions/la_partition_references.h"

/*
 * A session waits, with locks of its own.  The commit need not be in the file before that of
 * the row, whose record comes later in the log.
 */
static const char *const settings[][2] = {
	{"application_name", "pg_lookahead interval creation"},
	{"deadlock_timeout", "50ms"},
	/* The session has begun to write, whatever that of the database is. */
	{"default_transaction_read_only", "off"},
	{"lock_timeout", "2s"},
	{"synchronous_commit", "off"},
	{"transaction_timeout", "0"},
};

/*
 * Foreign keys would lock the tables at their other ends, which the session may have written
 * before.
 */
static void
check_request(const LaNeededRequest *request)
{
	const LaIntervalPolicy *policy = la_interval_policy_need(request->table);

	if (la_partition_references_of(request->table) != NIL ||
		la_partition_references_to(request->table) != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("foreign keys of \"%s\" or to it would have other tables locked",
						get_rel_name(request->table)),
				 errhint("Have partitions created ahead of time.")));
	if (request->created >= policy->max_partitions)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the policy has %d partitions created for a statement at most",
						policy->max_partitions),
				 errhint("Call pg_lookahead_set_interval() with another \"max_partitions\".")));
}

static void
put_text(char *place, const char *text)
{
	int			length = text == NULL ? 0
		: pg_mbcliplen(text, strlen(text), LA_NEEDED_TEXT - 1);

	if (length > 0)
		memcpy(place, text, length);
	place[length] = '\0';
}

/*
 * An error goes to the session.
 */
static void
create_partition(LaNeededRequest *request)
{
	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		if (get_rel_name(request->table) != NULL)
			la_background_show(psprintf("create a partition of %s for a row",
										la_interval_owner_name(request->table)));
		PushActiveSnapshot(GetTransactionSnapshot());
		check_request(request);
		request->is_created =
			la_interval_create_for(request->table, pstrdup(request->value));
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(TopMemoryContext);
		error = CopyErrorData();
		request->sqlstate = error->sqlerrcode;
		put_text(request->message, error->message);
		put_text(request->detail, error->detail);
		put_text(request->hint, error->hint);
		AbortOutOfAnyTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
}

/*
 * A worker's process.
 */
void
la_needed_worker_main(Datum arg)
{
	dsm_segment *segment;
	LaNeededRequest *request;
	LOCKTAG		tag;

	segment = dsm_attach(DatumGetUInt32(arg));
	/* Nobody waits any longer. */
	if (segment == NULL)
		return;
	dsm_pin_mapping(segment);
	request = dsm_segment_address(segment);
	la_background_connect(request->database, settings, lengthof(settings));
	la_needed_worker_tag(&tag, DatumGetUInt32(arg));

	/* From now on the session waits for this lock. */
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	(void) LockAcquire(&tag, ExclusiveLock, true, false);
	CommitTransactionCommand();
	pg_atomic_write_u32(&request->state, LA_NEEDED_LOCKED);
	SetLatch(&GetPGProcByNumber(request->session)->procLatch);

	create_partition(request);
	pg_write_barrier();
	pg_atomic_write_u32(&request->state, LA_NEEDED_DONE);
	LockRelease(&tag, ExclusiveLock, true);
}
