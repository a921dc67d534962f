/*-------------------------------------------------------------------------
 *
 * la_interval_retire.h
 *	  takes partitions out of a table that its policy keeps no longer
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_RETIRE_H
#define LA_INTERVAL_RETIRE_H

#include "intervals/la_interval_policy.h"

/* What was done with a partition that might be old. */
typedef enum LaIntervalRetired
{
	LA_INTERVAL_KEPT,			/* it is not */
	LA_INTERVAL_MARKED,			/* is being detached */
	LA_INTERVAL_TO_BE_LOCKED,	/* cannot be, beside others */
	LA_INTERVAL_BUSY,			/* another one is being detached */
} LaIntervalRetired;

/* A partition that is being detached. */
typedef struct LaIntervalPending
{
	Oid			partition;		/* or InvalidOid */
	TransactionId mark;			/* who has marked it */
	TransactionId since;		/* the same; if that was frozen, no normal
								 * one: snapshots that do not see the mark
								 * have an xmin up to here */
} LaIntervalPending;

extern LaIntervalPending la_interval_retire_pending(Oid parent);
extern const char *la_interval_retire_obstacle(Oid parent, Oid partition);
extern LaIntervalRetired la_interval_retire_mark(Oid parent, Oid partition,
												 bool drops, int *pauses);
extern LOCKMODE la_interval_retire_lock_of_references(bool drops);
extern void la_interval_retire_await(Oid parent,
									 const LaIntervalPending *pending);
extern void la_interval_retire_lock(Oid partition, bool drops);
extern void la_interval_retire_finish(Oid parent, Oid partition, bool drops);
extern void la_interval_retire_check_referenced(Oid partition);
extern void la_interval_retire_check_free(Oid partition);
extern void la_interval_retire_check_unused(Oid partition);
extern void la_interval_retire_detach(Oid parent, Oid partition);
extern void la_interval_retire_drop(Oid partition);

#endif							/* LA_INTERVAL_RETIRE_H */
