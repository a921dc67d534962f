/*-------------------------------------------------------------------------
 *
 * la_join_judge.h
 *	  may outer rows of a join be drawn ahead of their turn?
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_JUDGE_H
#define LA_JOIN_JUDGE_H

#include "attach/la_registry.h"

extern bool la_join_judge(NestLoopState *join, LaNode *node, bool *may_stop);

#endif							/* LA_JOIN_JUDGE_H */
