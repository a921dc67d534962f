/*-------------------------------------------------------------------------
 *
 * la_build_spool.h
 *	  index entries in the order in which they came
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_SPOOL_H
#define LA_BUILD_SPOOL_H

#include "storage/buffile.h"

#include "index_build/entries/la_build_record.h"

/*
 * Bytes of a chunk.  Arbitrary, within these bounds: the largest index tuple
 * that is kept, of BTMaxItemSize, must fit several times, and hundreds of spools
 * that each hold one partly filled chunk must be small beside
 * maintenance_work_mem.
 */
#define LA_CHUNK_SIZE (8 * 1024)

typedef struct LaChunk
{
	struct LaChunk *next;
	uint32		used;			/* bytes of data, once it is not written to */
	uint32		beyond_limit;	/* if so, freed when it is given back */
	char		data[FLEXIBLE_ARRAY_MEMBER];
} LaChunk;

#define LA_CHUNK_CAPACITY (LA_CHUNK_SIZE - offsetof(LaChunk, data))

/* Where chunks come from, for all spools of a process. */
typedef struct LaChunkPool
{
	MemoryContext context;
	LaChunk    *free_chunks;
	int64		nallocated;
	int64		nused;
	int64		limit;			/* most chunks at a time */
} LaChunkPool;

/*
 * Bytes behind a new record that are asked for: where records go to hundreds of
 * spools in turn, the processor itself does not foresee it.  Arbitrary.
 */
#define LA_SPOOL_PREFETCH 128

/* What la_build_spool_add() needs comes first, in few cache lines. */
typedef struct LaSpool
{
	char	   *at;				/* room in the last chunk */
	char	   *end;
	int64		nrecords;
	int64		nbytes;			/* of records, in file and chunks */
	int64		nfiled;			/* chunks in the file */
	uint64		last_word;
	uint64		last_place;

	/*
	 * Whether the words never went down, and among equal words the places
	 * neither.  Without further words to compare, that is the index's order.
	 */
	bool		ordered;
	LaRecordKind kind;			/* of all records */

	/* Records come first from the file, then from the chunks. */
	LaChunk    *first;
	LaChunk    *last;
	BufFile    *file;

	uint64		first_word;
	LaChunkPool *pool;
} LaSpool;

/* A position in a spool that is being emptied. */
typedef struct LaSpoolReader
{
	LaSpool    *spool;
	bool		keep;			/* chunks stay until la_build_spool_release() */
	bool		look;			/* the spool stays as it is */
	LaChunk    *chunk;			/* the current one */
	LaChunk    *scratch;		/* for chunks of the file, when looking */
	LaChunk    *next;			/* to be looked at */
	LaChunk    *kept;
	char	   *at;
	char	   *end;
} LaSpoolReader;

extern void la_build_pool_init(LaChunkPool *pool, int64 bytes);
extern void la_build_pool_reset(LaChunkPool *pool, int64 bytes);
extern void la_build_spool_init(LaSpool *spool, LaChunkPool *pool,
								LaRecordKind kind);
extern void la_build_spool_grow(LaSpool *spool, Size size);
extern void la_build_spool_to_file(LaSpool *spool);
extern void la_build_spool_discard(LaSpool *spool);
extern void la_build_spool_read(LaSpool *spool, LaSpoolReader *reader, bool keep);
extern void la_build_spool_look(LaSpool *spool, LaSpoolReader *reader);
extern void la_build_spool_look_end(LaSpoolReader *reader);
extern bool la_build_spool_next_chunk(LaSpoolReader *reader);
extern void la_build_spool_release(LaSpoolReader *reader);

/*
 * Room for one more record of `size` bytes, to be filled by the caller
 * before anything else happens to the spool.
 */
static inline LaRecord *
la_build_spool_add(LaSpool *spool, uint64 word, uint64 place, Size size)
{
	LaRecord   *record;

	if (unlikely((Size) (spool->end - spool->at) < size))
	{
		if (spool->nrecords == 0)
			spool->first_word = word;
		la_build_spool_grow(spool, size);
	}
	record = (LaRecord *) spool->at;
	spool->at += size;
	__builtin_prefetch(spool->at + LA_SPOOL_PREFETCH, 1);

	record->word = word;
	record->place = place;
	if (word < spool->last_word ||
		(word == spool->last_word && place < spool->last_place))
		spool->ordered = false;
	spool->last_word = word;
	spool->last_place = place;
	spool->nrecords++;
	spool->nbytes += size;
	return record;
}

/*
 * Adds a copy of a record of the same kind, with a word of its own.  Returns
 * its size.
 */
static inline Size
la_build_spool_add_copy(LaSpool *spool, uint64 word, const LaRecord *record)
{
	Size		size = la_build_record_size(spool->kind, record);
	LaRecord   *copy = la_build_spool_add(spool, word, record->place, size);

	if (size > sizeof(LaRecord))
		la_build_record_copy(la_build_record_tuple(copy), la_build_record_tuple(record),
							 size - sizeof(LaRecord));
	return size;
}

/*
 * The next record, or NULL at the end.  It stays valid until the next call,
 * or until la_build_spool_release() if the reader keeps chunks.
 */
static inline LaRecord *
la_build_spool_next(LaSpoolReader *reader)
{
	LaRecord   *record;

	if (reader->at == reader->end && !la_build_spool_next_chunk(reader))
		return NULL;
	record = (LaRecord *) reader->at;
	reader->at += la_build_record_size(reader->spool->kind, record);
	return record;
}

#endif							/* LA_BUILD_SPOOL_H */
