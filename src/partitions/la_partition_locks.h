/*-------------------------------------------------------------------------
 *
 * la_partition_locks.h
 *	  whether the lock table has room for partitions
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PARTITION_LOCKS_H
#define LA_PARTITION_LOCKS_H

/* The shared lock table, counted at one moment. */
typedef struct LaLockCount
{
	int64		own;			/* this process's locks in it */
	int64		free;			/* entries that nobody has */
} LaLockCount;

extern LaLockCount la_partition_locks_count(void);

#endif							/* LA_PARTITION_LOCKS_H */
