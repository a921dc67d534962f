/*-------------------------------------------------------------------------
 *
 * la_build_spool.c
 *	  index entries in the order in which they came
 *
 * A spool is a queue of records, kept in chunks of memory.  It is written
 * once and then read once, and reading gives chunks back, so that records
 * can be moved from one spool to others in the memory they already occupy.
 *
 * Chunks can be moved to the spool's temporary file, at any time and as
 * often as wanted; order is kept, because the file always holds what came
 * before the chunks.  Temporary files are core's: they go to temp_tablespaces,
 * count for temp_file_limit and vanish with the transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/tablespace.h"
#include "miscadmin.h"
#include "utils/injection_point.h"
#include "utils/memutils.h"

#include "index_build/la_build_spool.h"

/*
 * Most chunks allocated together: 1 MB, so that the allocator is rarely
 * asked.  A small table needs but one.
 */
#define CHUNKS_PER_BLOCK 128

/* Fewest chunks that a pool can do with. */
#define MIN_CHUNKS 8

static void free_chunks(LaChunkPool *pool);
static LaChunk *pool_take(LaChunkPool *pool);
static void pool_give(LaChunkPool *pool, LaChunk *chunk);
static LaChunk *read_chunk(LaSpool *spool);

/*
 * memcpy() for index tuples.  Where the compiler can tell that a size is
 * small, as it can of IndexTupleSize(), it makes a string instruction of
 * memcpy(), whose start takes longer than the whole call does.  Here it cannot.
 */
pg_noinline void
la_copy(void *to, const void *from, Size size)
{
	memcpy(to, from, size);
}

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

static LaChunk *
pool_take(LaChunkPool *pool)
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

static void
pool_give(LaChunkPool *pool, LaChunk *chunk)
{
	chunk->next = pool->free_chunks;
	pool->free_chunks = chunk;
	pool->nused--;
}

/*
 * Makes an empty spool.  It needs no memory before the first record.
 */
void
la_spool_init(LaSpool *spool, LaChunkPool *pool, LaRecordKind kind)
{
	memset(spool, 0, sizeof(*spool));
	spool->pool = pool;
	spool->kind = kind;
	spool->ordered = true;
}

/*
 * Nothing more is written to the last chunk.
 */
static void
finish_chunk(LaSpool *spool)
{
	if (spool->last != NULL)
		spool->last->used = spool->at - spool->last->data;
	spool->at = spool->end = NULL;
}

/*
 * Begins a chunk, which has room for `size` bytes.
 */
void
la_spool_grow(LaSpool *spool, Size size)
{
	LaChunk    *chunk = pool_take(spool->pool);

	Assert(size <= LA_CHUNK_CAPACITY);
	finish_chunk(spool);
	if (spool->last != NULL)
		spool->last->next = chunk;
	else
		spool->first = chunk;
	spool->last = chunk;
	spool->at = chunk->data;
	spool->end = chunk->data + LA_CHUNK_CAPACITY;
}

/*
 * Moves all chunks to the file.
 */
void
la_spool_to_file(LaSpool *spool)
{
	if (spool->first == NULL)
		return;
	if (spool->file == NULL)
	{
		PrepareTempTablespaces();
		spool->file = BufFileCreateTemp(false);
	}

	finish_chunk(spool);
	while (spool->first != NULL)
	{
		LaChunk    *chunk = spool->first;

		CHECK_FOR_INTERRUPTS();
		BufFileWrite(spool->file, &chunk->used, sizeof(chunk->used));
		BufFileWrite(spool->file, chunk->data, chunk->used);
		spool->file_bytes += sizeof(chunk->used) + chunk->used;
		spool->first = chunk->next;
		pool_give(spool->pool, chunk);
	}
	spool->last = NULL;
	INJECTION_POINT("pg-lookahead-entries-spilled", NULL);
}

/*
 * Gives up what the spool still holds.
 */
void
la_spool_discard(LaSpool *spool)
{
	finish_chunk(spool);
	while (spool->first != NULL)
	{
		LaChunk    *chunk = spool->first;

		spool->first = chunk->next;
		pool_give(spool->pool, chunk);
	}
	spool->last = NULL;
	if (spool->file != NULL)
		BufFileClose(spool->file);
	spool->file = NULL;
}

/*
 * Begins to empty a spool.  Nothing may be added to it any more.
 */
void
la_spool_read(LaSpool *spool, LaSpoolReader *reader, bool keep)
{
	finish_chunk(spool);
	memset(reader, 0, sizeof(*reader));
	reader->spool = spool;
	reader->keep = keep;
	if (spool->file != NULL &&
		BufFileSeek(spool->file, 0, 0, SEEK_SET) != 0)
		elog(ERROR, "could not rewind a temporary file of an index build");
}

/*
 * Goes to the next chunk; the one before is given back or kept.  False at
 * the end, when the spool holds nothing any more.
 */
bool
la_spool_next_chunk(LaSpoolReader *reader)
{
	LaSpool    *spool = reader->spool;

	CHECK_FOR_INTERRUPTS();
	if (reader->chunk != NULL && reader->keep)
	{
		reader->chunk->next = reader->kept;
		reader->kept = reader->chunk;
	}
	else if (reader->chunk != NULL)
		pool_give(spool->pool, reader->chunk);
	reader->chunk = NULL;

	if (spool->file != NULL)
		reader->chunk = read_chunk(spool);
	if (reader->chunk == NULL && spool->first != NULL)
	{
		reader->chunk = spool->first;
		spool->first = reader->chunk->next;
		if (spool->first == NULL)
			spool->last = NULL;
	}
	if (reader->chunk == NULL)
		return false;

	reader->at = reader->chunk->data;
	reader->end = reader->at + reader->chunk->used;
	return true;
}

/*
 * Gives back the chunks that were kept.
 */
void
la_spool_release(LaSpoolReader *reader)
{
	while (reader->kept != NULL)
	{
		LaChunk    *chunk = reader->kept;

		reader->kept = chunk->next;
		pool_give(reader->spool->pool, chunk);
	}
}

/*
 * The next chunk of the file, or NULL at its end, when the file is closed.
 */
static LaChunk *
read_chunk(LaSpool *spool)
{
	Size		used;
	LaChunk    *chunk;

	if (BufFileReadMaybeEOF(spool->file, &used, sizeof(used), true) == 0)
	{
		BufFileClose(spool->file);
		spool->file = NULL;
		return NULL;
	}
	chunk = pool_take(spool->pool);
	BufFileReadExact(spool->file, chunk->data, used);
	chunk->used = used;
	return chunk;
}
