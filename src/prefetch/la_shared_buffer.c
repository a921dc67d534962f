/*-------------------------------------------------------------------------
 *
 * la_shared_buffer.c
 *	  is a page in shared buffers?
 *
 * Nothing is pinned, so the answer may be wrong a moment later: it decides what is
 * asked for, and nothing else.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "prefetch/la_shared_buffer.h"

/*
 * The shared buffer that has a page now, or InvalidBuffer.  Mirrors the first half of
 * PrefetchSharedBuffer() in bufmgr.c, whose second half asks for one page at once.
 */
Buffer
la_shared_buffer_find(Relation relation, BlockNumber block)
{
	BufferTag	tag;
	uint32		hash;
	LWLock	   *partition_lock;
	int			buffer;

	if (RelationUsesLocalBuffers(relation))
		return InvalidBuffer;
	InitBufferTag(&tag, &relation->rd_locator, MAIN_FORKNUM, block);
	hash = BufTableHashCode(&tag);
	partition_lock = BufMappingPartitionLock(hash);
	LWLockAcquire(partition_lock, LW_SHARED);
	buffer = BufTableLookup(&tag, hash);
	LWLockRelease(partition_lock);
	return buffer < 0 ? InvalidBuffer : buffer + 1;
}
