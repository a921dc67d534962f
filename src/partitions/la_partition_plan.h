/*-------------------------------------------------------------------------
 *
 * la_partition_plan.h
 *	  which partitions of a series are missing
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PARTITION_PLAN_H
#define LA_PARTITION_PLAN_H

#include "nodes/parsenodes.h"
#include "utils/relcache.h"

#include "partitions/la_partition_request.h"

/* A partition to be created. */
typedef struct LaPlannedPartition
{
	int			number;			/* in the series */
	char	   *name;
	PartitionBoundSpec *bound;	/* as core stores it */
} LaPlannedPartition;

typedef struct LaPartitionPlan
{
	LaPlannedPartition *missing;
	int			count;
	int			next;			/* first partition that was not looked at;
								 * those before that are not missing are there
								 * already */
} LaPartitionPlan;

extern LaPartitionPlan *la_partition_plan(const LaPartitionRequest *request,
										  Relation parent, int first,
										  int limit);
extern Oid	la_partition_plan_range(Relation parent, const PartitionBoundSpec *bound);
extern void la_partition_plan_check_default(const LaPartitionPlan *plan,
											Relation parent,
											Relation default_partition);

#endif							/* LA_PARTITION_PLAN_H */
