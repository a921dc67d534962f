/*-------------------------------------------------------------------------
 *
 * la_interval_state.h
 *	  what the last maintenance of a table found, and which tables are due
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_STATE_H
#define LA_INTERVAL_STATE_H

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"

/* How long after a run the next one is due at most.  Arbitrary. */
#define LA_INTERVAL_MOST_WAIT (USECS_PER_HOUR)

/*
 * Kinds of our advisory locks; those of users are of kinds 1 and 2.
 */
enum
{
	LA_LOCK_OF_MAINTENANCE = 8, /* of who maintains a table, and of the
								 * launcher; the view of policies shows them */
	LA_LOCK_OF_CREATION = 9		/* of who needs a partition, or creates it
								 * (la_needed_request.c) */
};

/* A row of the table of states; all zero of a policy without one. */
typedef struct LaIntervalState
{
	TimestampTz last_run;
	TimestampTz next_run;
	TimestampTz last_analyze;	/* or 0 */
	int			attempts;		/* that failed, since one that did not */
	const char *error;			/* of the last attempt, or NULL */
	int			sqlstate;		/* of that error */
	const char *blocked;		/* partitions that could not be removed, and
								 * why, or NULL */
	Oid			detaching;		/* the partition that maintenance has begun to
								 * detach, or InvalidOid */
	TransactionId mark;			/* by which it was marked */
} LaIntervalState;

extern LaIntervalState *la_interval_state_read(Oid parent);
extern void la_interval_state_begin(Oid parent);
extern void la_interval_state_remove_stale(Oid parent);
extern void la_interval_state_write(Oid parent, const char *version,
									const LaIntervalState *state);
extern List *la_interval_due(TimestampTz now);

#endif							/* LA_INTERVAL_STATE_H */
