/*-------------------------------------------------------------------------
 *
 * la_partition_way.h
 *	  which way partitions can be created, and whose functions run meanwhile
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PARTITION_WAY_H
#define LA_PARTITION_WAY_H

#include "tcop/cmdtag.h"

#include "partitions/la_partition_request.h"

extern LaPartitionWay la_partition_way(const LaPartitionRequest *request,
									   const char **reason);
extern LaPartitionWay la_partition_way_beside_writers(const LaPartitionRequest *request,
													  const char **reason);
extern bool la_partition_calls_functions(Oid table);
extern bool la_partition_fires_event_trigger(CommandTag tag);
extern const char *la_partition_way_name(LaPartitionWay way);
extern LaPartitionWay la_partition_way_by_name(const char *name);

#endif							/* LA_PARTITION_WAY_H */
