/*-------------------------------------------------------------------------
 *
 * la_join_use.c
 *	  do outer rows come to a target?
 *
 * Not every row does: an expression may pass it over, a filter drop the row,
 * another scan find nothing.  Its scan counts how often it has begun, which
 * tells of each row when that is done with.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join/la_join_use.h"
#include "prefetch/la_wake.h"

/*
 * Rows after which it is counted how many came to a target, and how many it
 * has to be: arbitrary.
 */
#define ROWS_PER_LOOK 32
#define USED_ROWS 16

/*
 * The join wakes.  Those of its targets count as in vain to which no row
 * before has come, unless none has come to any.
 */
void
la_join_use_begin(LaJoinUse *uses, const LaJoinTarget *targets, int ntargets)
{
	bool		any = false;

	memset(uses, 0, ntargets * sizeof(LaJoinUse));
	for (int i = 0; i < ntargets; i++)
	{
		uses[i].in_vain = targets[i].searches != NULL && *targets[i].searches == 0;
		any |= !uses[i].in_vain;
	}
	if (!any || la_wake_forced())
		memset(uses, 0, ntargets * sizeof(LaJoinUse));
}

/*
 * A row's turn has come.
 */
void
la_join_use_hand_out(LaJoinUse *use, const LaJoinTarget *target)
{
	if (target->searches != NULL)
		use->searches = *target->searches;
}

/*
 * It is done with.  Rows for which nothing was asked do not count, as those
 * with a NULL, unless nothing is asked at all.
 */
void
la_join_use_retire(LaJoinUse *use, const LaJoinTarget *target)
{
	if (target->searches == NULL)
		return;
	if (*target->searches != use->searches)
	{
		if (use->in_vain && !use->looked)
			*use = (LaJoinUse)
		{
			0
		};
		use->used_rows++;
	}
	if (++use->rows < ROWS_PER_LOOK)
		return;
	use->in_vain = use->used_rows < USED_ROWS;
	use->looked = true;
	use->rows = use->used_rows = 0;
}
