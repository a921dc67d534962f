/*-------------------------------------------------------------------------
 *
 * la_insert_plan.h
 *	  what the plan of an insert calls besides what its query does
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_PLAN_H
#define LA_INSERT_PLAN_H

#include "nodes/plannodes.h"

#include "bulk_insert/judge/la_insert_function.h"

extern bool la_insert_search_plan(const PlannedStmt *plan, LaInsertSearch *search);

#endif							/* LA_INSERT_PLAN_H */
