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

extern bool la_interval_maintain(Oid parent);

#endif							/* LA_INTERVAL_MAINTENANCE_H */
