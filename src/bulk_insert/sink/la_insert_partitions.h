/*-------------------------------------------------------------------------
 *
 * la_insert_partitions.h
 *	  rows that go to partitions of a table
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_PARTITIONS_H
#define LA_INSERT_PARTITIONS_H

#include "bulk_insert/sink/la_insert_route.h"

extern void la_insert_partitions_collect(LaInsertRoute *route);
extern void la_insert_partitions_add(LaInsertRoute *route,
									 LaInsertTarget *target,
									 TupleTableSlot *row);
extern void la_insert_partitions_flush(LaInsertRoute *route);
extern void la_insert_partitions_end(LaInsertRoute *route);

#endif							/* LA_INSERT_PARTITIONS_H */
