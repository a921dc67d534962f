/*-------------------------------------------------------------------------
 *
 * la_index_reason.h
 *	  why an index scan is left to core, or in which way it looks ahead
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INDEX_REASON_H
#define LA_INDEX_REASON_H

#include "attach/la_methods.h"

/* Ways to execute an index scan: LaNode.way. */
enum
{
	LA_INDEX_RING,				/* take entries ahead of time, into a ring */
	LA_INDEX_PEEK,				/* core takes them, we look and give advice */
};

extern LaVerdict la_index_classify(PlanState *planstate, const LaPlace *place);

#endif							/* LA_INDEX_REASON_H */
