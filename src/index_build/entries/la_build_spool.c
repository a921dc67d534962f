/*-------------------------------------------------------------------------
 *
 * la_build_spool.c
 *	  index entries in the order in which they came
 *
 * A spool is a queue of records, kept in chunks of memory.  It is written
 * once and then emptied once, which gives chunks back, so that records can be
 * moved from one spool to others in the memory they already occupy; or, if asked
 * for, only all together (la_build_spool_release()).  Before that it can be looked at, as
 * often as wanted (la_build_spool_look()).
 *
 * Chunks can be moved to the spool's temporary file, at any time and as
 * often as wanted; order is kept, because the file always holds what came
 * before the chunks.  Temporary files are core's: they go to temp_tablespaces,
 * count for temp_file_limit and vanish with the transaction.
 *
 * All spools of a process take their chunks from one pool and give them back there,
 * so that what is in use and what has been allocated is known at any time.  The pool
 * has a limit but does not enforce it: those who add entries look from time to time
 * and move some to files.  What is beyond it is freed as soon as it is given back.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/tablespace.h"
#include "miscadmin.h"
#include "utils/injection_point.h"
#include "utils/memutils.h"

#include "index_build/entries/la_build_spool.h"

/*
 * Most chunks allocated together: 1 MB, so that the allocator is rarely
 * asked.  A small table needs but one.
 */
#define CHUNKS_PER_BLOCK 128

/* Fewest chunks that a pool can do with. */
#define MIN_CHUNKS 8

/*
 * Most chunks of a pool of the given size.
 */
static int64
pool_chunks(int64 bytes)
{
	return Max(bytes / LA_CHUNK_SIZE, MIN_CHUNKS);
}

/*
 * Prepares a pool of at most `bytes` of memory, but at least a few chunks,
 * in the current context.
 */
void
la_build_pool_init(LaChunkPool *pool, int64 bytes)
{
	memset(pool, 0, sizeof(*pool));
	pool->context = AllocSetContextCreate(CurrentMemoryContext,
										  "index build entries",
										  ALLOCSET_SMALL_SIZES);
	pool->limit = pool_chunks(bytes);
}

/*
 * Frees the memory of a pool of which no chunk is in use, and sets a new
 * limit.
 */
void
la_build_pool_reset(LaChunkPool *pool, int64 bytes)
{
	Assert(pool->nused == 0);
	MemoryContextReset(pool->context);
	pool->free_chunks = NULL;
	pool->nallocated = 0;
	pool->limit = pool_chunks(bytes);
}

/*
 * A chunk, which is empty; beyond the limit if need be.
 */
static LaChunk *
take_chunk(LaChunkPool *pool)
{
	LaChunk    *chunk;

	if (pool->free_chunks == NULL)
	{
		int64		room = pool->limit - pool->nallocated;
		int64		wanted = Min(CHUNKS_PER_BLOCK, pool->nallocated + 1);
		int64		count = Max(Min(wanted, room), 1);
		char	   *block = MemoryContextAlloc(pool->context,
											   count * LA_CHUNK_SIZE);

		for (int64 i = 0; i < count; i++)
		{
			chunk = (LaChunk *) (block + i * LA_CHUNK_SIZE);
			chunk->beyond_limit = room <= 0;
			chunk->next = pool->free_chunks;
			pool->free_chunks = chunk;
		}
		pool->nallocated += count;
	}

	chunk = pool->free_chunks;
	pool->free_chunks = chunk->next;
	pool->nused++;
	chunk->next = NULL;
	chunk->used = 0;
	return chunk;
}

static void
give_chunk(LaChunkPool *pool, LaChunk *chunk)
{
	pool->nused--;
	if (chunk->beyond_limit)
	{
		pool->nallocated--;
		pfree(chunk);
		return;
	}
	chunk->next = pool->free_chunks;
	pool->free_chunks = chunk;
}

/*
 * Makes an empty spool.  It needs no memory before the first record.
 */
void
la_build_spool_init(LaSpool *spool, LaChunkPool *pool, LaRecordKind kind)
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
	if (spool->at != NULL)
		spool->last->used = spool->at - spool->last->data;
	spool->at = spool->end = NULL;
}

/*
 * Begins a chunk, which has room for `size` bytes.
 */
void
la_build_spool_grow(LaSpool *spool, Size size)
{
	LaChunk    *chunk;

	/* those who add records refuse larger ones; here memory is at stake */
	if (size > LA_CHUNK_CAPACITY)
		elog(ERROR, "index entry of %zu bytes is too large to be sorted", size);
	chunk = take_chunk(spool->pool);
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
la_build_spool_to_file(LaSpool *spool)
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
		spool->nfiled++;
		spool->first = chunk->next;
		give_chunk(spool->pool, chunk);
	}
	spool->last = NULL;
	INJECTION_POINT("pg-lookahead-entries-spilled", NULL);
}

/*
 * Empties a spool at once.  Its file is gone then, its chunks with the pool.
 */
void
la_build_spool_discard(LaSpool *spool)
{
	if (spool->file != NULL)
		BufFileClose(spool->file);
	la_build_spool_init(spool, spool->pool, spool->kind);
}

/*
 * Begins to empty a spool.  Nothing may be added to it any more.
 */
void
la_build_spool_read(LaSpool *spool, LaSpoolReader *reader, bool keep)
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
 * Begins to read a spool that stays as it is.  Each record is valid until the
 * next one of another chunk.  Nothing may be added until la_build_spool_look_end().
 */
void
la_build_spool_look(LaSpool *spool, LaSpoolReader *reader)
{
	la_build_spool_read(spool, reader, false);
	reader->look = true;
	reader->next = spool->first;
	if (spool->file != NULL)
		reader->scratch = take_chunk(spool->pool);
}

/*
 * Ends to look, at the end or before it.
 */
void
la_build_spool_look_end(LaSpoolReader *reader)
{
	if (reader->scratch != NULL)
		give_chunk(reader->spool->pool, reader->scratch);
	reader->scratch = NULL;
}

/*
 * Reads a chunk of the file.  False at its end.
 */
static bool
fill_chunk(LaSpool *spool, LaChunk *chunk)
{
	if (BufFileReadMaybeEOF(spool->file, &chunk->used, sizeof(chunk->used),
							true) == 0)
		return false;
	if (chunk->used > LA_CHUNK_CAPACITY)
		elog(ERROR, "temporary file of an index build is damaged");
	BufFileReadExact(spool->file, chunk->data, chunk->used);
	return true;
}

/*
 * The next chunk of the file, or NULL at its end, when the file is closed.
 */
static LaChunk *
read_chunk(LaSpool *spool)
{
	LaChunk    *chunk = take_chunk(spool->pool);

	if (fill_chunk(spool, chunk))
		return chunk;
	give_chunk(spool->pool, chunk);
	BufFileClose(spool->file);
	spool->file = NULL;
	return NULL;
}

/*
 * Goes to the next chunk and leaves it where it is.
 */
static bool
look_at_chunk(LaSpoolReader *reader)
{
	if (reader->scratch != NULL && fill_chunk(reader->spool, reader->scratch))
		reader->chunk = reader->scratch;
	else
	{
		la_build_spool_look_end(reader);
		reader->chunk = reader->next;
		if (reader->chunk == NULL)
			return false;
		reader->next = reader->chunk->next;
	}
	reader->at = reader->chunk->data;
	reader->end = reader->at + reader->chunk->used;
	return true;
}

/*
 * Goes to the next chunk; the one before is given back or kept.  False at
 * the end, when the spool holds nothing any more.
 */
bool
la_build_spool_next_chunk(LaSpoolReader *reader)
{
	LaSpool    *spool = reader->spool;

	CHECK_FOR_INTERRUPTS();
	if (reader->look)
		return look_at_chunk(reader);
	if (reader->chunk != NULL && reader->keep)
	{
		reader->chunk->next = reader->kept;
		reader->kept = reader->chunk;
	}
	else if (reader->chunk != NULL)
		give_chunk(spool->pool, reader->chunk);
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
la_build_spool_release(LaSpoolReader *reader)
{
	while (reader->kept != NULL)
	{
		LaChunk    *chunk = reader->kept;

		reader->kept = chunk->next;
		give_chunk(reader->spool->pool, chunk);
	}
}
