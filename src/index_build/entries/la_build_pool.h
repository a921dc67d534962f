/*-------------------------------------------------------------------------
 *
 * la_build_pool.h
 *	  memory for index entries, in chunks
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_POOL_H
#define LA_BUILD_POOL_H

#include "port/atomics.h"

/*
 * Bytes of a chunk.  Arbitrary, within these bounds: the largest index tuple
 * that is kept, of BTMaxItemSize, must fit several times, and a thousand spools
 * that each hold one partly filled chunk must be small beside
 * maintenance_work_mem.
 */
#define LA_CHUNK_SIZE (8 * 1024)

typedef struct LaChunk
{
	struct LaChunk *next;
	Size		used;			/* bytes of data, once it is not written to */
	char		data[FLEXIBLE_ARRAY_MEMBER];
} LaChunk;

#define LA_CHUNK_CAPACITY (LA_CHUNK_SIZE - offsetof(LaChunk, data))

/*
 * Memory of several processes, of which each may take what is left until there is
 * none.  Then they all give theirs back, as soon as they notice, and each keeps to
 * its own limit.
 */
typedef struct LaPoolShare
{
	int64		limit;			/* most chunks of all pools; never changes */
	pg_atomic_uint64 nallocated;
} LaPoolShare;

/* Where chunks come from, for all spools of a process. */
typedef struct LaChunkPool
{
	MemoryContext context;
	LaChunk    *free_chunks;
	int64		nallocated;
	int64		nused;
	int64		limit;			/* most chunks at a time */
	LaPoolShare *share;			/* or NULL */
} LaChunkPool;

extern int64 la_pool_chunks(int64 bytes);
extern void la_pool_init(LaChunkPool *pool, int64 bytes, LaPoolShare *share);
extern LaChunk *la_pool_take(LaChunkPool *pool);
extern void la_pool_give(LaChunkPool *pool, LaChunk *chunk);
extern bool la_pool_is_full(const LaChunkPool *pool, int64 reserve);
extern void la_pool_leave_share(LaChunkPool *pool, int64 reserve);
extern void la_pool_reset(LaChunkPool *pool, int64 bytes);

#endif							/* LA_BUILD_POOL_H */
