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

/* What a worker has counted for a plan node. */
typedef struct LaWorkerReport
{
	dsm_handle	context;		/* segment of its parallel context */
	int			plan_node_id;
	LaCounters	counters;
} LaWorkerReport;

extern bool la_worker_table_attach(void);
extern bool la_worker_table_next_number(uint64 *number);
extern void la_worker_table_begin(void);
extern void la_worker_table_append(const LaWorkerReport *report);
extern void la_worker_table_end(void);
extern bool la_worker_table_read(uint64 *number, LaWorkerReport *report,
								 bool *missed);

#endif							/* LA_WORKER_TABLE_H */
