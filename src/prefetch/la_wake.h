/*-------------------------------------------------------------------------
 *
 * la_wake.h
 *	  when a scan wakes, and when it may sleep again
 *
 * A scan sleeps, which is to say that core's own calls are made for it and no others,
 * until a page had to be read: what is in shared buffers need not be asked for.  It may
 * sleep again when it has gone on for some time without that.  A node that has not woken
 * yet asks la_asleep_missed() (attach/la_asleep.h); one that has a state asks here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_WAKE_H
#define LA_WAKE_H

#include "executor/instrument.h"

#include "prefetch/la_prefetch_settings.h"

/*
 * Pages or rows found in buffers one after the other after which a scan sleeps:
 * arbitrary, several reads of the largest usual size.
 */
#define LA_SLEEP_AFTER 128

/* Is a scan awake, and how long has it read nothing? */
typedef struct LaWake
{
	bool		awake;
	bool		woken;			/* once, at least, since it began */
	int64		reads;			/* as of the last look */
	uint32		calm;			/* looks since it moved */
} LaWake;

/*
 * How many pages this process has had to read so far.  While the number stands
 * still, a scan finds its pages in buffers.  An asynchronous read is counted
 * when it begins.  Reads BufferUsage of instrument.h; relies on
 * AsyncReadBuffers() in bufmgr.c.
 */
static inline int64
la_reads(void)
{
	return pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read;
}

/*
 * Shall scans look ahead at pages that are in buffers, too?  Only a test build
 * can be told so: the tables of tests are seldom anywhere else.
 */
static inline bool
la_wake_forced(void)
{
#ifdef LA_TEST
	return la_test_start_after >= 0;
#else
	return false;
#endif
}

/*
 * Shall a node that is being attached to be awake at once, for a test?
 */
static inline bool
la_wake_at_start(void)
{
#ifdef LA_TEST
	return la_test_start_after == 0;
#else
	return false;
#endif
}

/*
 * The scan begins, maybe anew, and sleeps until more than so many pages have
 * been read.
 */
static inline void
la_wake_start(LaWake *wake, int64 reads)
{
	wake->awake = false;
	wake->woken = false;
	wake->reads = reads;
	wake->calm = 0;
}

static inline void
la_wake_up(LaWake *wake)
{
	wake->awake = true;
	wake->woken = true;
	wake->reads = la_reads();
	wake->calm = 0;
}

static inline void
la_wake_sleep(LaWake *wake)
{
	wake->awake = false;
	wake->reads = la_reads();
}

/*
 * The scan has come to another page or row.  Returns true when something had
 * to be read since the last look.
 */
static inline bool
la_wake_step(LaWake *wake)
{
	int64		reads = la_reads();

	if (reads == wake->reads)
	{
		wake->calm++;
		return false;
	}
	wake->reads = reads;
	wake->calm = 0;
	return true;
}

/*
 * May a scan that is awake sleep?
 */
static inline bool
la_wake_is_calm(const LaWake *wake)
{
	return wake->calm > LA_SLEEP_AFTER && !la_wake_forced();
}

/*
 * The scan has come to another page: shall it be awake?  Here it falls asleep, but
 * what has to be done when it wakes is for the scan.
 */
static inline bool
la_wake_is_wanted(LaWake *wake)
{
	if (la_wake_step(wake) || la_wake_forced())
		return true;
	if (la_wake_is_calm(wake))
		la_wake_sleep(wake);
	return wake->awake;
}

#endif							/* LA_WAKE_H */
