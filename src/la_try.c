/*-------------------------------------------------------------------------
 *
 * la_try.c
 *	  work whose errors are caught
 *
 * The subtransaction brings back the user, settings, locks, snapshots and
 * buffer pins that were before, and it ends whatever happens.  Its end
 * advances the command counter if the command has used its command id, which
 * is an error in parallel mode (relies on CommandCounterIncrement() in
 * xact.c): there only a process may try something whose command has not used
 * it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/resowner.h"

#include "la_try.h"

/*
 * Does something in a subtransaction, in the caller's memory context.  Returns
 * NULL, or after an error, which has undone it, what that was, in the caller's
 * memory.  Which errors the caller throws on is its own affair: a cancel at
 * least.
 */
ErrorData *
la_try(LaTriedWork work, void *arg)
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
	return error;
}
