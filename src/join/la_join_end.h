/*-------------------------------------------------------------------------
 *
 * la_join_end.h
 *	  will a join be read to its end, and how many more of its rows are wanted if not?
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_END_H
#define LA_JOIN_END_H

#include "attach/la_registry.h"

typedef enum LaJoinEnd
{
	LA_JOIN_READ_TO_END,
	LA_JOIN_NOT_KNOWN_YET,
	LA_JOIN_MAY_BE_STOPPED,		/* by the leader, of whom a worker knows
								 * nothing */
	LA_JOIN_MAY_STOP,
} LaJoinEnd;

extern LaJoinEnd la_join_end(LaNode *node);
extern bool la_join_stops_early(const PlanState *planstate);
extern bool la_join_end_is_awaited(const LaNode *node);
extern bool la_join_end_limit_counts(const LaNode *node);
extern uint64 la_join_rows_wanted(const LaNode *node, bool limit_counts, uint64 used,
								  int64 given_before);

#endif							/* LA_JOIN_END_H */
