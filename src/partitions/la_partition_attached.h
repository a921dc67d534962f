/*-------------------------------------------------------------------------
 *
 * la_partition_attached.h
 *	  partitions created as tables of their own, and attached by core
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PARTITION_ATTACHED_H
#define LA_PARTITION_ATTACHED_H

#include "utils/relcache.h"

#include "partitions/la_partition_plan.h"

typedef struct LaPartitionAttached LaPartitionAttached;

extern LaPartitionAttached *la_partition_attached_begin(const LaPartitionRequest *request,
														Relation parent);
extern void la_partition_attached_create(const LaPartitionAttached *attached,
										 const LaPlannedPartition *planned);

#endif							/* LA_PARTITION_ATTACHED_H */
