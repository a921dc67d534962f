/*-------------------------------------------------------------------------
 *
 * la_worker_table.h
 *	  shared memory through which parallel workers hand counters on
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_WORKER_TABLE_H
#define LA_WORKER_TABLE_H

#include "storage/dsm_impl.h"

#include "la_counters.h"

extern bool la_worker_table_attach(void);
extern bool la_worker_table_attached(void);
extern void la_worker_table_listen(bool listening);
extern void la_worker_table_give(dsm_handle context, int plan_node_id,
								 const LaCounters *counters);
extern bool la_worker_table_take(dsm_handle context, int plan_node_id,
								 LaCounters *counters);
extern bool la_worker_table_full(void);

#endif							/* LA_WORKER_TABLE_H */
