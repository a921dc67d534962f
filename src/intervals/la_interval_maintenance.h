/*-------------------------------------------------------------------------
 *
 * la_interval_maintenance.h
 *	  keeps the partitions of a table as its policy says
 *
 * For whoever runs it, a session or a worker: la_interval_due() tells what there is to do
 * (la_interval_state.h), la_interval_create_for() creates a partition for a row
 * (la_interval_create.h).
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_MAINTENANCE_H
#define LA_INTERVAL_MAINTENANCE_H

#include "intervals/la_interval_create.h"
#include "intervals/la_interval_state.h"

/*
 * Who maintains a table has an advisory lock of this kind on it; those of users are
 * of kinds 1 and 2.  The view of policies shows it.
 */
#define LA_INTERVAL_LOCK_KIND 8

extern bool la_interval_maintain(Oid parent);

#endif							/* LA_INTERVAL_MAINTENANCE_H */
