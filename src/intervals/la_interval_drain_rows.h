/*-------------------------------------------------------------------------
 *
 * la_interval_drain_rows.h
 *	  moves the rows of one range out of the default partition
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_DRAIN_ROWS_H
#define LA_INTERVAL_DRAIN_ROWS_H

#include "tcop/dest.h"

#include "intervals/la_interval_grid.h"

/* The tables that are locked while rows move. */
typedef struct LaIntervalDrainLocked
{
	Oid			parent;
	Oid			default_partition;
	List	   *references;		/* in SHARE ROW EXCLUSIVE mode; the others in
								 * ACCESS EXCLUSIVE mode */
} LaIntervalDrainLocked;

extern void la_interval_drain_check(Oid parent, Oid default_partition);
extern void la_interval_drain_check_alone(const LaIntervalDrainLocked *locked, int patience);
extern uint64 la_interval_drain_rows(const LaIntervalPolicy *policy,
									 const LaIntervalRange *range,
									 const LaIntervalDrainLocked *locked);
extern uint64 la_interval_drain_execute(const char *command, Oid target,
										int result, DestReceiver *receiver);

#endif							/* LA_INTERVAL_DRAIN_ROWS_H */
