/*-------------------------------------------------------------------------
 *
 * la_insert_depend.h
 *	  when the plan of an insert must be made anew
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_DEPEND_H
#define LA_INSERT_DEPEND_H

#include "nodes/plannodes.h"

#include "attach/la_methods.h"

extern void la_insert_depend(PlannedStmt *plan, const LaJudgement *judgement);

#endif							/* LA_INSERT_DEPEND_H */
