/*-------------------------------------------------------------------------
 *
 * la_build_spool.c
 *	  index entries in the order in which they came
 *
 * A spool is a queue of records, kept in chunks of memory.  It is written
 * once and then emptied once, which gives chunks back, so that records can be
 * moved from one spool to others in the memory they already occupy; or, if asked
 * for, only all together (la_spool_release()).  Before that it can be looked at, as
 * often as wanted (la_spool_look()).
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

#include "index_build/entries/la_build_spool.h"

static bool look_at_chunk(LaSpoolReader *reader);
static LaChunk *read_chunk(LaSpool *spool);
static bool fill_chunk(LaSpool *spool, LaChunk *chunk);
static void rewind_file(LaSpool *spool);

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
	if (spool->at != NULL)
		spool->last->used = spool->at - spool->last->data;
	spool->at = spool->end = NULL;
}

/*
 * Begins a chunk, which has room for `size` bytes.
 */
void
la_spool_grow(LaSpool *spool, Size size)
{
	LaChunk    *chunk;

	/* those who add records refuse larger ones; here memory is at stake */
	if (size > LA_CHUNK_CAPACITY)
		elog(ERROR, "index entry of %zu bytes is too large to be sorted", size);
	chunk = la_pool_take(spool->pool);
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
		la_pool_give(spool->pool, chunk);
	}
	spool->last = NULL;
	INJECTION_POINT("pg-lookahead-entries-spilled", NULL);
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
	rewind_file(spool);
}

/*
 * Begins to read a spool that stays as it is.  Each record is valid until the
 * next one of another chunk.  Nothing may be added until la_spool_look_end().
 */
void
la_spool_look(LaSpool *spool, LaSpoolReader *reader)
{
	la_spool_read(spool, reader, false);
	reader->look = true;
	reader->next = spool->first;
	if (spool->file != NULL)
		reader->scratch = la_pool_take(spool->pool);
}

/*
 * Ends to look, at the end or before it.
 */
void
la_spool_look_end(LaSpoolReader *reader)
{
	if (reader->scratch != NULL)
		la_pool_give(reader->spool->pool, reader->scratch);
	reader->scratch = NULL;
}

static void
rewind_file(LaSpool *spool)
{
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
	if (reader->look)
		return look_at_chunk(reader);
	if (reader->chunk != NULL && reader->keep)
	{
		reader->chunk->next = reader->kept;
		reader->kept = reader->chunk;
	}
	else if (reader->chunk != NULL)
		la_pool_give(spool->pool, reader->chunk);
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
		la_pool_give(reader->spool->pool, chunk);
	}
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
		la_spool_look_end(reader);
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
 * The next chunk of the file, or NULL at its end, when the file is closed.
 */
static LaChunk *
read_chunk(LaSpool *spool)
{
	LaChunk    *chunk = la_pool_take(spool->pool);

	if (fill_chunk(spool, chunk))
		return chunk;
	la_pool_give(spool->pool, chunk);
	BufFileClose(spool->file);
	spool->file = NULL;
	return NULL;
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
