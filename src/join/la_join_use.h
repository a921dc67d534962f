/*-------------------------------------------------------------------------
 *
 * la_join_use.h
 *	  do outer rows come to a target?
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_USE_H
#define LA_JOIN_USE_H

#include "join/la_join_target.h"

typedef struct LaJoinUse
{
	uint64		searches;		/* of its scan, when the oldest row was handed
								 * out */
	uint32		rows;			/* since the last look */
	uint32		used_rows;		/* of these, those that came to it */
	bool		looked;			/* was there one since the join woke? */
	bool		in_vain;		/* did most not, or none so far? */
} LaJoinUse;

extern void la_join_use_begin(LaJoinUse *uses, const LaJoinTarget *targets, int ntargets);
extern void la_join_use_hand_out(LaJoinUse *use, const LaJoinTarget *target);
extern void la_join_use_retire(LaJoinUse *use, const LaJoinTarget *target);

#endif							/* LA_JOIN_USE_H */
