/*-------------------------------------------------------------------------
 *
 * la_insert_reason.h
 *	  which inserts are left to core
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_REASON_H
#define LA_INSERT_REASON_H

#include "attach/la_hooks.h"
#include "attach/la_methods.h"
#include "bulk_insert/judge/la_insert_known.h"

extern LaJudgement la_insert_judge_query(Query *query);
extern void la_insert_mark_plan(PlannedStmt *plan,
								const LaJudgement *judgement);
extern bool la_insert_concerns(const PlanState *planstate);
extern LaInsertCalls la_insert_marked_calls(const ModifyTable *plan);
extern LaVerdict la_insert_classify(PlanState *planstate, const LaPlace *place);

#endif							/* LA_INSERT_REASON_H */
