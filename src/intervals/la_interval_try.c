/*-------------------------------------------------------------------------
 *
 * la_interval_try.c
 *	  work whose errors are caught
 *
 * The subtransaction brings back the user, settings, locks and snapshots that
 * were before.  No error leaves it: what is thrown on, is thrown after it.
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
	if (error != NULL && error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		ReThrowError(error);
	return error;
}
