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
 * While rows come in the index's order each is compared with the one before, of those
 * whose first column is NULL or of the others.
 */
typedef struct LaInOrder
{
	LaCollection *entries;
	bool		holds;			/* all rows have come in order */
	IndexTuple	last[2];		/* room for any tuple; [1] where it is NULL */
} LaInOrder;

extern void la_in_order_begin(LaInOrder *order, LaCollection *entries,
							  bool tries);
extern bool la_in_order_add(LaInOrder *order, IndexTuple tuple, uint64 place,
							bool isnull);
extern void la_in_order_end(LaInOrder *order);

#endif							/* LA_BUILD_IN_ORDER_H */
