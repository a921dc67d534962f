/*-------------------------------------------------------------------------
 *
 * la_partition_request.h
 *	  which partitions are to be created, and which way
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PARTITION_REQUEST_H
#define LA_PARTITION_REQUEST_H

#include "partitions/la_partition_series.h"

/* Which way partitions are created. */
typedef enum LaPartitionWay
{
	LA_PARTITION_AUTO,			/* the fastest that is possible */
	LA_PARTITION_DIRECT,
	LA_PARTITION_ATTACHED,
	LA_PARTITION_NATIVE
} LaPartitionWay;

/* What was asked for. */
typedef struct LaPartitionRequest
{
	Oid			parent;
	const LaPartitionSeries *series;
	const char *names;			/* pattern, or NULL */
	const char *tablespace;		/* or NULL: as core chooses */
	const char *storage;		/* what stands in WITH (...), or NULL */
	const char *subpartitions;	/* what stands after PARTITION BY, or NULL */
	LaPartitionWay way;
} LaPartitionRequest;

#endif							/* LA_PARTITION_REQUEST_H */
