/*-------------------------------------------------------------------------
 *
 * la_build_spool.h
 *	  index entries in the order in which they came
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_SPOOL_H
#define LA_BUILD_SPOOL_H

#include "access/itup.h"
#include "port/atomics.h"
#include "storage/buffile.h"

/*
 * Bytes of a chunk.  Arbitrary, within these bounds: the largest index tuple
 * must fit several times, and a thousand spools that each hold one partly
 * filled chunk must be small beside maintenance_work_mem.
 */
#define LA_CHUNK_SIZE (8 * 1024)

/*
 * One index entry.  Word is the first word of its key (see la_build_key.h).
 * Place is where the row is: the heap TID as a number, with the lowest bit
 * set if the row is dead for the purpose of a unique index.  What follows
 * depends on the kind.
 */
typedef struct LaRecord
{
	uint64		word;
	uint64		place;
} LaRecord;

typedef enum LaRecordKind
{
	LA_RECORD_WORD,				/* nothing: the word is the whole key */
	LA_RECORD_TUPLE,			/* the index tuple */
	LA_RECORD_BYTES,			/* the index tuple and the string of its key */
} LaRecordKind;

/* The string of a key (see la_build_key.c), aligned as the tuple is. */
typedef struct LaKeyBytes
{
	uint32		length;			/* 0: too long to be kept */
	uint8		bytes[FLEXIBLE_ARRAY_MEMBER];
} LaKeyBytes;

typedef struct LaChunk
{
	struct LaChunk *next;
	Size		used;			/* bytes of data, once it is not written to */
	char		data[FLEXIBLE_ARRAY_MEMBER];
} LaChunk;

#define LA_CHUNK_CAPACITY (LA_CHUNK_SIZE - offsetof(LaChunk, data))

/*
 * Bytes behind a new record that are asked for: where records go to hundreds of
 * spools in turn, the processor itself does not foresee it.  Arbitrary.
 */
#define LA_SPOOL_PREFETCH 128

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

/* What la_spool_add() needs comes first, in few cache lines. */
typedef struct LaSpool
{
	char	   *at;				/* room in the last chunk */
	char	   *end;
	int64		nrecords;
	int64		nbytes;			/* of records, in file and chunks */
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
	int64		file_bytes;

	uint64		first_word;
	LaChunkPool *pool;
} LaSpool;

/* A position in a spool that is being emptied. */
typedef struct LaSpoolReader
{
	LaSpool    *spool;
	bool		keep;			/* chunks stay until la_spool_release() */
	LaChunk    *chunk;			/* the current one */
	LaChunk    *kept;
	char	   *at;
	char	   *end;
} LaSpoolReader;

static inline uint64
la_place_of(BlockNumber block, OffsetNumber offset, bool alive)
{
	return ((uint64) block << 17) | ((uint64) offset << 1) | !alive;
}

static inline uint64
la_place_make(const ItemPointerData *tid, bool alive)
{
	return la_place_of(ItemPointerGetBlockNumberNoCheck(tid),
					   ItemPointerGetOffsetNumberNoCheck(tid), alive);
}

static inline void
la_place_get_tid(uint64 place, ItemPointerData *tid)
{
	ItemPointerSet(tid, (BlockNumber) (place >> 17),
				   (OffsetNumber) ((place >> 1) & 0xFFFF));
}

static inline bool
la_place_is_alive(uint64 place)
{
	return (place & 1) == 0;
}

static inline IndexTuple
la_record_tuple(const LaRecord *record)
{
	return (IndexTuple) (record + 1);
}

static inline LaKeyBytes *
la_tuple_bytes(IndexTuple tuple)
{
	return (LaKeyBytes *) ((char *) tuple + IndexTupleSize(tuple));
}

static inline Size
la_bytes_size(uint32 length)
{
	return MAXALIGN(offsetof(LaKeyBytes, bytes) + length);
}

/* Bytes of what follows a record, from the index tuple on. */
static inline Size
la_tuple_size(LaRecordKind kind, IndexTuple tuple)
{
	Size		size = IndexTupleSize(tuple);

	if (kind == LA_RECORD_BYTES)
		size += la_bytes_size(la_tuple_bytes(tuple)->length);
	return size;
}

/* Bytes of a record; sizes of index tuples are multiples of MAXALIGN. */
static inline Size
la_record_size(LaRecordKind kind, const LaRecord *record)
{
	if (kind == LA_RECORD_WORD)
		return sizeof(LaRecord);
	return sizeof(LaRecord) + la_tuple_size(kind, la_record_tuple(record));
}

extern void la_copy(void *to, const void *from, Size size);
extern int64 la_pool_chunks(int64 bytes);
extern void la_pool_init(LaChunkPool *pool, int64 bytes, LaPoolShare *share);
extern bool la_pool_is_full(const LaChunkPool *pool, int64 reserve);
extern void la_pool_leave_share(LaChunkPool *pool, int64 reserve);
extern void la_pool_reset(LaChunkPool *pool, int64 bytes);
extern void la_spool_init(LaSpool *spool, LaChunkPool *pool,
						  LaRecordKind kind);
extern void la_spool_grow(LaSpool *spool, Size size);
extern void la_spool_to_file(LaSpool *spool);
extern void la_spool_discard(LaSpool *spool);
extern void la_spool_read(LaSpool *spool, LaSpoolReader *reader, bool keep);
extern bool la_spool_next_chunk(LaSpoolReader *reader);
extern void la_spool_release(LaSpoolReader *reader);

/*
 * Room for one more record of `size` bytes, to be filled by the caller
 * before anything else happens to the spool.
 */
static inline LaRecord *
la_spool_add(LaSpool *spool, uint64 word, uint64 place, Size size)
{
	LaRecord   *record;

	if (unlikely((Size) (spool->end - spool->at) < size))
	{
		if (spool->nrecords == 0)
			spool->first_word = word;
		la_spool_grow(spool, size);
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
la_spool_add_copy(LaSpool *spool, uint64 word, const LaRecord *record)
{
	Size		size = la_record_size(spool->kind, record);
	LaRecord   *copy = la_spool_add(spool, word, record->place, size);

	if (size > sizeof(LaRecord))
		la_copy(la_record_tuple(copy), la_record_tuple(record),
				size - sizeof(LaRecord));
	return size;
}

/*
 * The next record, or NULL at the end.  It stays valid until the next call,
 * or until la_spool_release() if the reader keeps chunks.
 */
static inline LaRecord *
la_spool_next(LaSpoolReader *reader)
{
	LaRecord   *record;

	if (reader->at == reader->end && !la_spool_next_chunk(reader))
		return NULL;
	record = (LaRecord *) reader->at;
	reader->at += la_record_size(reader->spool->kind, record);
	return record;
}

#endif							/* LA_BUILD_SPOOL_H */
