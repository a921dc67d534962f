/*-------------------------------------------------------------------------
 *
 * la_join_trial.h
 *	  whether a join gains by asking where that is doubtful
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_TRIAL_H
#define LA_JOIN_TRIAL_H

#include "storage/block.h"

#include "prefetch/la_trial.h"

/* Why asking may gain nothing. */
typedef enum LaJoinDoubt
{
	LA_JOIN_NO_DOUBT,
	LA_JOIN_IN_ORDER,			/* the kernel may read the pages ahead */
	LA_JOIN_SPARSE,				/* few rows want one */
} LaJoinDoubt;

typedef struct LaJoinTrial
{
	uint32		wanted;			/* pages since the last look at them */
	uint32		near;			/* of these, not far from the one before */
	uint32		rows;			/* drawn until that look */
	int64		device_pages;	/* that had to come from one, since then */

	LaJoinDoubt doubt;			/* by that look */
	bool		dense;			/* did it find enough of these? */
	LaTrial		trial;			/* if there is one */
	int64		reads;			/* until now */
	int64		asleep;			/* of these, since it was decided not to ask */
	bool		looking;		/* is it awake for a look only? */
} LaJoinTrial;

extern void la_join_trial_wanted(LaJoinTrial *trial, BlockNumber last,
								 BlockNumber block, uint32 rows);
extern bool la_join_trial_asks(LaJoinTrial *trial);

#endif							/* LA_JOIN_TRIAL_H */
