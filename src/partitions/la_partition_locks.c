/*-------------------------------------------------------------------------
 *
 * la_partition_locks.c
 *	  whether the lock table has room for partitions
 *
 * A transaction keeps its locks on whatever it created: the table, its TOAST
 * table, their indexes, and types and constraints that others were made to
 * depend on.  When the shared lock table is full, statements of all sessions
 * fail.  How many locks a partition takes depends on the parent in ways that
 * only core knows, so it is counted with the first one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "miscadmin.h"
#include "storage/lock.h"

#include "partitions/la_partition_locks.h"

/*
 * Counts the locks of all processes, which holds them up for a moment: for
 * once or twice per call.  A lock that several processes hold counts several
 * times, so that rather too little is said to be free; and a reserve beyond
 * what the settings say is left to the others.  Relies on
 * LockManagerShmemSize() in lock.c.
 */
LaLockCount
la_partition_locks_count(void)
{
	LockData   *locks = GetLockStatusData();
	LaLockCount count = {0};

	count.free = (int64) max_locks_per_xact * (MaxBackends + max_prepared_xacts);
	for (int i = 0; i < locks->nelements; i++)
	{
		const LockInstanceData *lock = &locks->locks[i];

		if (lock->fastpath)
			continue;
		count.free--;
		if (lock->pid == MyProcPid && lock->holdMask != 0)
			count.own++;
	}
	pfree(locks->locks);
	pfree(locks);
	return count;
}
