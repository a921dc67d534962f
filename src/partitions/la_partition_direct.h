/*-------------------------------------------------------------------------
 *
 * la_partition_direct.h
 *	  partitions created without a statement
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PARTITION_DIRECT_H
#define LA_PARTITION_DIRECT_H

#include "utils/relcache.h"

#include "partitions/la_partition_plan.h"

typedef struct LaPartitionDirect LaPartitionDirect;

extern LaPartitionDirect *la_partition_direct_begin(const LaPartitionRequest *request,
													Relation parent);
extern void la_partition_direct_create(const LaPartitionDirect *direct,
									   const LaPlannedPartition *planned);
extern void la_partition_direct_end(const LaPartitionDirect *direct);

#endif							/* LA_PARTITION_DIRECT_H */
