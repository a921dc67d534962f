/*-------------------------------------------------------------------------
 *
 * la_build_pool.c
 *	  memory for index entries, in chunks
 *
 * All spools of a process take their chunks from one pool and give them back
 * there, so that what is in use and what has been allocated is known at any time.
 * The pool has a limit but does not enforce it: those who add entries look from
 * time to time and move some to files.
 *
 * The processes of a parallel build can share what they have: one with more
 * entries than the others takes more chunks, until all that there are have been taken.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "index_build/entries/la_build_pool.h"

/*
 * Most chunks allocated together: 1 MB, so that the allocator is rarely
 * asked.  A small table needs but one.
 */
#define CHUNKS_PER_BLOCK 128

/* Fewest chunks that a pool can do with. */
#define MIN_CHUNKS 8

static void free_chunks(LaChunkPool *pool);

/*
 * Most chunks of a pool of the given size.
 */
int64
la_pool_chunks(int64 bytes)
{
	return Max(bytes / LA_CHUNK_SIZE, MIN_CHUNKS);
}

/*
 * Prepares a pool of at most `bytes` of memory, but at least a few chunks,
 * in the current context.  It may use more if other processes leave some of
 * what they share.
 */
void
la_pool_init(LaChunkPool *pool, int64 bytes, LaPoolShare *share)
{
	memset(pool, 0, sizeof(*pool));
	pool->context = AllocSetContextCreate(CurrentMemoryContext,
										  "index build entries",
										  ALLOCSET_SMALL_SIZES);
	pool->limit = la_pool_chunks(bytes);
	pool->share = share;
}

/*
 * True if all chunks but a reserve are in use, or all that the processes share,
 * even if others have more of those than this one.
 */
bool
la_pool_is_full(const LaChunkPool *pool, int64 reserve)
{
	if (pool->share != NULL)
		return pg_atomic_read_u64(&pool->share->nallocated) >= pool->share->limit;
	return pool->nused + reserve >= pool->limit;
}

/*
 * Stops to share, and frees the memory; no chunk is in use.  From now on the
 * pool keeps to its own limit, or to what others have left of that, and these find
 * so much in use whether it is or not.  The reserve is not shared.
 */
void
la_pool_leave_share(LaChunkPool *pool, int64 reserve)
{
	LaPoolShare *share = pool->share;
	int64		others = pg_atomic_read_u64(&share->nallocated) - pool->nallocated;

	pool->limit = Max(Min(pool->limit, share->limit - others + reserve),
					  MIN_CHUNKS);
	pg_atomic_fetch_add_u64(&share->nallocated,
							pool->limit - reserve - pool->nallocated);
	pool->share = NULL;
	free_chunks(pool);
}

/*
 * Frees the memory of a pool of which no chunk is in use, and sets a new
 * limit.
 */
void
la_pool_reset(LaChunkPool *pool, int64 bytes)
{
	Assert(pool->share == NULL);
	free_chunks(pool);
	pool->limit = la_pool_chunks(bytes);
}

static void
free_chunks(LaChunkPool *pool)
{
	Assert(pool->nused == 0);
	MemoryContextReset(pool->context);
	pool->free_chunks = NULL;
	pool->nallocated = 0;
}

/*
 * A chunk, which is empty; beyond the limit if need be.
 */
LaChunk *
la_pool_take(LaChunkPool *pool)
{
	LaChunk    *chunk;

	if (pool->free_chunks == NULL)
	{
		int64		wanted = Min(CHUNKS_PER_BLOCK, pool->nallocated + 1);
		int64		count = Min(wanted,
								Max(pool->limit - pool->nallocated, 1));
		char	   *block = MemoryContextAlloc(pool->context,
											   count * LA_CHUNK_SIZE);

		for (int64 i = 0; i < count; i++)
		{
			chunk = (LaChunk *) (block + i * LA_CHUNK_SIZE);
			chunk->next = pool->free_chunks;
			pool->free_chunks = chunk;
		}
		pool->nallocated += count;
		if (pool->share != NULL)
			pg_atomic_fetch_add_u64(&pool->share->nallocated, count);
	}

	chunk = pool->free_chunks;
	pool->free_chunks = chunk->next;
	pool->nused++;
	chunk->next = NULL;
	chunk->used = 0;
	return chunk;
}

/*
 * Takes a chunk back.
 */
void
la_pool_give(LaChunkPool *pool, LaChunk *chunk)
{
	chunk->next = pool->free_chunks;
	pool->free_chunks = chunk;
	pool->nused--;
}
