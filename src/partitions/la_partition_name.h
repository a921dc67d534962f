/*-------------------------------------------------------------------------
 *
 * la_partition_name.h
 *	  what a partition is called
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PARTITION_NAME_H
#define LA_PARTITION_NAME_H

#include "partitions/la_partition_series.h"

extern char *la_partition_name(const char *pattern, const char *parent,
							   const LaPartitionSeries *series, int i);

#endif							/* LA_PARTITION_NAME_H */
