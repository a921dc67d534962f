/*-------------------------------------------------------------------------
 *
 * la_insert_mark.h
 *	  what the planner's hook leaves in the plan of an insert
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_MARK_H
#define LA_INSERT_MARK_H

#include "nodes/plannodes.h"

#include "attach/la_methods.h"

extern void la_insert_mark(PlannedStmt *plan, const LaJudgement *judgement);
extern bool la_insert_is_marked(const ModifyTable *plan);
extern LaReason la_insert_judgement(const ModifyTable *plan, Oid target);
extern bool la_insert_runs_user_code(const ModifyTable *plan);

#endif							/* LA_INSERT_MARK_H */
