/*-------------------------------------------------------------------------
 *
 * la_partition_planted.h
 *	  partitions created by core's statement
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PARTITION_PLANTED_H
#define LA_PARTITION_PLANTED_H

#include "partitions/la_partition_plan.h"

extern void la_partition_planted_create(const LaPartitionRequest *request,
										const LaPlannedPartition *planned);
extern void la_partition_native_create(const LaPartitionRequest *request,
									   const LaPlannedPartition *planned);

#endif							/* LA_PARTITION_PLANTED_H */
