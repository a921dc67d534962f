/*-------------------------------------------------------------------------
 *
 * la_partition_create.h
 *	  checks a parent, and creates the partitions of a series that are missing
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PARTITION_CREATE_H
#define LA_PARTITION_CREATE_H

#include "storage/lockdefs.h"

#include "partitions/la_partition_request.h"

/* What was done, over all batches. */
typedef struct LaPartitionResult
{
	int			next;			/* first partition of the series not yet done */
	int			created;
	int			present;		/* were there already, with the same bound */
	LaPartitionWay way;
	const char *reason;			/* why not a faster one, or NULL */
} LaPartitionResult;

pg_noreturn extern void la_partition_refuse_missing(Oid relation);
extern void la_partition_check_command(Oid parent);
extern void la_partition_check_key(Relation parent, bool by_list);
extern Oid	la_partition_key_type(Oid parent, bool by_list);
extern LOCKMODE la_partition_lock_needed(const LaPartitionRequest *request);
extern void la_partition_create(const LaPartitionRequest *request, int limit,
								bool may_commit, LaPartitionResult *result);

#endif							/* LA_PARTITION_CREATE_H */
