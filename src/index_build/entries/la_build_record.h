/*-------------------------------------------------------------------------
 *
 * la_build_record.h
 *	  what is kept of an index entry until it is in the index
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_RECORD_H
#define LA_BUILD_RECORD_H

#include "access/itup.h"

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

/* The string of a key (see la_build_string.c), aligned as the tuple is. */
typedef struct LaKeyBytes
{
	uint32		length;			/* 0: too long to be kept, or not made */
	uint8		bytes[FLEXIBLE_ARRAY_MEMBER];
} LaKeyBytes;

static inline uint64
la_build_place_of(BlockNumber block, OffsetNumber offset, bool alive)
{
	return ((uint64) block << 17) | ((uint64) offset << 1) | !alive;
}

static inline uint64
la_build_place_make(const ItemPointerData *tid, bool alive)
{
	return la_build_place_of(ItemPointerGetBlockNumberNoCheck(tid),
							 ItemPointerGetOffsetNumberNoCheck(tid), alive);
}

static inline void
la_build_place_get_tid(uint64 place, ItemPointerData *tid)
{
	ItemPointerSet(tid, (BlockNumber) (place >> 17),
				   (OffsetNumber) ((place >> 1) & 0xFFFF));
}

static inline bool
la_build_place_is_alive(uint64 place)
{
	return (place & 1) == 0;
}

static inline IndexTuple
la_build_record_tuple(const LaRecord *record)
{
	return (IndexTuple) (record + 1);
}

static inline LaKeyBytes *
la_build_record_bytes(IndexTuple tuple)
{
	return (LaKeyBytes *) ((char *) tuple + IndexTupleSize(tuple));
}

static inline Size
la_build_bytes_size(uint32 length)
{
	return MAXALIGN(offsetof(LaKeyBytes, bytes) + length);
}

/* Bytes of what follows a record, from the index tuple on. */
static inline Size
la_build_record_tuple_size(LaRecordKind kind, IndexTuple tuple)
{
	Size		size = IndexTupleSize(tuple);

	if (kind == LA_RECORD_BYTES)
		size += la_build_bytes_size(la_build_record_bytes(tuple)->length);
	return size;
}

/* Bytes of a record; sizes of index tuples are multiples of MAXALIGN. */
static inline Size
la_build_record_size(LaRecordKind kind, const LaRecord *record)
{
	if (kind == LA_RECORD_WORD)
		return sizeof(LaRecord);
	return sizeof(LaRecord) +
		la_build_record_tuple_size(kind, la_build_record_tuple(record));
}

extern void la_build_record_copy(void *to, const void *from, Size size);

#endif							/* LA_BUILD_RECORD_H */
