/*-------------------------------------------------------------------------
 *
 * la_join_window.h
 *	  the outer rows of a join that were drawn ahead, and the pages asked for them
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_WINDOW_H
#define LA_JOIN_WINDOW_H

#include "executor/tuptable.h"

#include "attach/la_registry.h"

typedef struct LaJoinWindow LaJoinWindow;

extern LaJoinWindow *la_join_window_create(NestLoopState *join, LaNode *node);
extern bool la_join_window_wake(LaJoinWindow *window);
extern bool la_join_window_sleeps(const LaJoinWindow *window);
extern bool la_join_window_next(LaJoinWindow *window, TupleTableSlot **slot);

#endif							/* LA_JOIN_WINDOW_H */
