/*-------------------------------------------------------------------------
 *
 * la_partition_table.h
 *	  the table that a partition is, without its being one
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PARTITION_TABLE_H
#define LA_PARTITION_TABLE_H

#include "utils/relcache.h"

#include "partitions/la_partition_request.h"

typedef struct LaPartitionTable LaPartitionTable;

extern LaPartitionTable *la_partition_table_read(const LaPartitionRequest *request,
												 Relation parent,
												 bool inherits);
extern Relation la_partition_table_begin(const LaPartitionTable *table,
										 const char *name);
extern void la_partition_table_end(const LaPartitionTable *table,
								   Relation created);

#endif							/* LA_PARTITION_TABLE_H */
