/*-------------------------------------------------------------------------
 *
 * la_join_trial.h
 *	  whether a join in table order gains by asking
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_TRIAL_H
#define LA_JOIN_TRIAL_H

#include "storage/block.h"

#include "prefetch/la_trial.h"

typedef struct LaJoinTrial
{
	uint32		wanted;			/* pages since the last look at their order */
	uint32		near;			/* of these, not far from the one before */

	bool		in_order;		/* did they come in order, when looked at? */
	LaTrial		trial;			/* if so */
	int64		reads;			/* until now */
	int64		asleep;			/* of these, since it was decided not to ask */
	bool		looking;		/* is it awake for a look only? */
} LaJoinTrial;

extern void la_join_trial_wanted(LaJoinTrial *trial, BlockNumber last, BlockNumber block);
extern bool la_join_trial_asks(LaJoinTrial *trial);

#endif							/* LA_JOIN_TRIAL_H */
