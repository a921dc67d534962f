/*-------------------------------------------------------------------------
 *
 * la_insert_bounds.h
 *	  bounds of partitions, for quick look-ups
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_BOUNDS_H
#define LA_INSERT_BOUNDS_H

#include "nodes/execnodes.h"
#include "partitioning/partdefs.h"
#include "utils/relcache.h"

typedef struct LaInsertBounds LaInsertBounds;

extern LaInsertBounds *la_insert_bounds_read(Relation table,
											 PartitionDesc partitions,
											 EState *estate);
extern int	la_insert_bounds_find(LaInsertBounds *bounds, TupleTableSlot *row,
								  EState *estate);

#endif							/* LA_INSERT_BOUNDS_H */
