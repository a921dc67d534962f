/*-------------------------------------------------------------------------
 *
 * la_ring_memory.c
 *	  memory of the rings of a statement
 *
 * A query over a thousand partitions must not take a thousand rings' worth: the
 * rings of one statement share a budget.  A scan that would begin to look ahead
 * beyond it stays with core, a ring that cannot grow stays as it is, and scans
 * that are over give up their rings where others may need the room.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "index_scan/la_index_feature.h"
#include "index_scan/la_ring_memory.h"

/* First capacity of a ring, in entries: arbitrary; doubled when it is full. */
#define RING_SIZE_INITIAL 256

/* What a ring takes beside its entries, as a rule, in bytes. */
#define RING_FIXED_BYTES 8192

static Size ring_bytes(uint32 capacity);

/*
 * May another scan of this query begin to look ahead?
 */
bool
la_ring_memory_affordable(const LaQuery *query)
{
	return query->ring_bytes + ring_bytes(RING_SIZE_INITIAL) <= LA_STATEMENT_BYTES;
}

/*
 * Do the rings of this query take half of what they may?
 */
bool
la_ring_memory_crowded(const LaQuery *query)
{
	return query->ring_bytes > LA_STATEMENT_BYTES / 2;
}

/*
 * Allocates the entries of a ring.  Test settings override its size.
 */
void
la_ring_memory_take(LaTidRing *ring)
{
	ring->capacity = RING_SIZE_INITIAL;
	ring->max_capacity = LA_RING_SIZE_MAX;
#ifdef LA_TEST
	if (la_test_ring_size > 0)
	{
		ring->max_capacity = pg_nextpower2_32(Max(la_test_ring_size,
												  LA_RING_SIZE_MIN));
		ring->capacity = Min(ring->capacity, ring->max_capacity);
	}
#endif
	ring->entries = MemoryContextAlloc(ring->context,
									   ring->capacity * sizeof(LaTidEntry));
	ring->node->query->ring_bytes += ring_bytes(ring->capacity);
}

/*
 * Doubles a ring, if its bound and the budget allow it.
 */
bool
la_ring_memory_grow(LaTidRing *ring)
{
	LaQuery    *query = ring->node->query;
	uint32		capacity = ring->capacity * 2;
	Size		added_bytes = ring->capacity * sizeof(LaTidEntry);
	LaTidEntry *entries;

	if (ring->capacity >= ring->max_capacity ||
		query->ring_bytes + added_bytes > LA_STATEMENT_BYTES)
		return false;

	entries = MemoryContextAlloc(ring->context, capacity * sizeof(LaTidEntry));
	for (uint64 i = ring->consumed; i < ring->filled; i++)
		entries[i & (capacity - 1)] = *la_ring_entry(ring, i);
	pfree(ring->entries);
	query->ring_bytes += added_bytes;
	ring->entries = entries;
	ring->capacity = capacity;
	return true;
}

/*
 * Frees the entries of a ring.
 */
void
la_ring_memory_release(LaTidRing *ring)
{
	ring->node->query->ring_bytes -= ring_bytes(ring->capacity);
	pfree(ring->entries);
}

/*
 * What a ring of some capacity takes, in bytes.
 */
static Size
ring_bytes(uint32 capacity)
{
	return RING_FIXED_BYTES + capacity * sizeof(LaTidEntry);
}
