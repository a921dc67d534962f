/*-------------------------------------------------------------------------
 *
 * la_interval_run.h
 *	  the transactions of one maintenance of a table
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_RUN_H
#define LA_INTERVAL_RUN_H

#include "lib/stringinfo.h"

#include "intervals/la_interval_create.h"
#include "intervals/la_interval_old.h"
#include "intervals/la_interval_retire.h"
#include "intervals/la_interval_state.h"

typedef struct LaIntervalRun LaIntervalRun;

/* The policy is NULL where it was removed meanwhile. */
typedef void (*LaIntervalStep) (LaIntervalRun *run,
								const LaIntervalPolicy *policy);

/* Steps, one after the other; also where the run has not begun. */
typedef void (*LaIntervalWork) (LaIntervalRun *run);

/* The maintenance of one table. */
struct LaIntervalRun
{
	Oid			parent;
	bool		is_alone;		/* no procedure has called it */
	TimestampTz now;			/* when it began */
	MemoryContext context;		/* for the run */
	MemoryContext temporary;	/* for a step */
	void	   *arg;			/* of whoever begins it */
	bool		is_patient;		/* the table is waited for as long as the
								 * caller says */
	LaIntervalState *state;
	StringInfoData blocked;

	/* What is done just now. */
	LaIntervalStep step;		/* or NULL */
	LOCKMODE	lock;			/* of the parent, for that, or NoLock */
	ErrorData  *error;			/* of the last one, or NULL */
	bool		waits;			/* for that lock */
	TimestampTz until;			/* other tables are waited for, or 0 */

	/* What has become known. */
	char	   *version;		/* of the policy */
	bool		is_superseded;	/* it has another one */
	bool		is_locked_out;	/* the parent could not be locked in time */
	bool		has_waited;		/* something could not */

	LaIntervalWanted wanted;	/* partitions to be created */
	LaIntervalOldList *old;		/* partitions to be taken out */
	LaIntervalPending pending;	/* one that is marked */
	Oid			partition;		/* the one that is taken out, or InvalidOid */
	LaIntervalRetired retired;	/* how far that one is */
	int			pauses;			/* for those who use what it references */
};

extern bool la_interval_run(Oid parent, LaIntervalWork work, void *arg);
extern bool la_interval_run_has_begun(LaIntervalRun *run);
extern void la_interval_run_end(LaIntervalRun *run);
extern bool la_interval_run_step(LaIntervalRun *run, LaIntervalStep step,
								 LOCKMODE lock);
extern void la_interval_run_lock(LaIntervalRun *run, const List *tables, LOCKMODE mode);
extern void la_interval_run_let_go(Oid table, LOCKMODE mode);
extern bool la_interval_run_await(LaIntervalRun *run);
extern bool la_interval_run_await_snapshots(LaIntervalRun *run);
extern ErrorData *la_interval_run_keep_error(LaIntervalRun *run);
extern void la_interval_run_snapshot(void);
extern void la_interval_run_note(LaIntervalRun *run, const char *message,
								 int sqlstate);
extern void la_interval_run_note_blocked(LaIntervalRun *run, const char *what,
										 const char *why);

#endif							/* LA_INTERVAL_RUN_H */
