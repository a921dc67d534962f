/*-------------------------------------------------------------------------
 *
 * la_build_in_order.h
 *	  collects rows without keys as long as they come in the index's order
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_IN_ORDER_H
#define LA_BUILD_IN_ORDER_H

#include "index_build/sort/la_build_collection.h"

/*
 * While rows come in the index's order, and for some more, each is compared with
 * the one before, of those whose first column is NULL or of the others.  Of what is
 * compared no keys are made: either no row has any (LaCollection.without_keys), or
 * those of the run have none.
 */
typedef struct LaInOrder
{
	LaCollection *entries;
	bool		holds;			/* all rows have come in order */
	bool		run_is_open;	/* for more rows */
	int64		nbehind_run;	/* rows that come before its last one */
	IndexTuple	last[2];		/* room for any tuple; [1] where it is NULL */
} LaInOrder;

extern void la_in_order_begin(LaInOrder *order, LaCollection *entries,
							  bool tries);
extern bool la_in_order_add(LaInOrder *order, IndexTuple tuple, uint64 place,
							bool isnull);
extern void la_in_order_end(LaInOrder *order);

/*
 * Whether rows are to be tried with la_in_order_add().
 */
static inline bool
la_in_order_is_tried(const LaInOrder *order)
{
	return order->entries->without_keys || order->run_is_open;
}

#endif							/* LA_BUILD_IN_ORDER_H */
