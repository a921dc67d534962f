/*-------------------------------------------------------------------------
 *
 * la_index_next.h
 *	  execution of an index scan node
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INDEX_NEXT_H
#define LA_INDEX_NEXT_H

#include "nodes/execnodes.h"

#include "la_stats.h"

extern Oid	la_index_scan_am(PlanState *planstate);
extern LaReason la_index_scan_reason(PlanState *planstate, int eflags);
extern TupleTableSlot *la_index_scan_exec(PlanState *pstate);

#endif							/* LA_INDEX_NEXT_H */
