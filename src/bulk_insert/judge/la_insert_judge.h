/*-------------------------------------------------------------------------
 *
 * la_insert_judge.h
 *	  whether the rows of an insert may be collected
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_JUDGE_H
#define LA_INSERT_JUDGE_H

#include "nodes/execnodes.h"
#include "nodes/parsenodes.h"
#include "utils/relcache.h"

#include "attach/la_methods.h"

extern LaJudgement la_insert_judge(Query *query);
extern bool la_insert_has_volatile_check(const ResultRelInfo *target,
										 bool *runs_user_code);

#endif							/* LA_INSERT_JUDGE_H */
