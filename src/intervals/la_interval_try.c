/*-------------------------------------------------------------------------
 *
 * la_interval_try.c
 *	  work whose errors are caught
 *
 * The subtransaction brings back the user, settings, locks and snapshots that
 * were before.  No error leaves it: what is thrown on, is thrown after it.
 *
 * A cancel is known by who has thrown it.  A function of a table's owner can throw any
 * SQLSTATE, and must not stop the maintenance of other tables by that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/resowner.h"

#include "intervals/la_interval_try.h"

/*
 * Does something in a subtransaction.  Returns NULL, or after an error, which
 * has undone it, what that was, in the caller's memory.  A cancel is thrown.
 */
ErrorData *
la_interval_try(LaIntervalWork work, void *arg)
{
	MemoryContext caller = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(caller);
	PG_TRY();
	{
		work(arg);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	CurrentResourceOwner = owner;
	if (error != NULL && la_interval_interrupted(error, ERRCODE_QUERY_CANCELED))
		ReThrowError(error);
	return error;
}

/*
 * Whether the session was interrupted: cancelled, by a user or by its statement_timeout, or at the end of its
 * lock_timeout.  Relies on ProcessInterrupts() in postgres.c, which takes the flag of the interrupt back
 * before it throws, so that the flag does not tell.
 */
bool
la_interval_interrupted(const ErrorData *error, int sqlstate)
{
	return error->sqlerrcode == sqlstate &&
		error->funcname != NULL &&
		strcmp(error->funcname, "ProcessInterrupts") == 0;
}
