/*-------------------------------------------------------------------------
 *
 * la_asleep.h
 *	  has a page been read for a node that sleeps?
 *
 * A node asks with each row, before anything is known of it but its address: so
 * a test build, in which rows stand for pages, looks for it in the registry.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_ASLEEP_H
#define LA_ASLEEP_H

#include "nodes/execnodes.h"

#include "attach/la_registry.h"
#include "prefetch/la_wake.h"

/*
 * Has a page been read since la_reads() returned "reads"?  With
 * test_start_after, a sleeping node takes so many rows for that.
 */
static inline bool
la_asleep_missed(PlanState *planstate, int64 reads)
{
#ifdef LA_TEST
	LaNode	   *node;

	if (la_wake_forced() && (node = la_registry_find(planstate)) != NULL)
		return ++node->test_rows >= la_test_start_after;
#endif
	return la_reads() != reads;
}

#endif							/* LA_ASLEEP_H */
