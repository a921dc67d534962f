/*-------------------------------------------------------------------------
 *
 * la_ring_stream.c
 *	  has the pages of a ring's entries read by a read stream
 *
 *		consumed  <=  ready  <=  filled			(counts of entries)
 *
 *		.. 41 42 | 43 44 45 46 47 | 48 49 50 | 51 ..
 *		         ^ next row       ^ next     ^ next from the AM
 *		                            block for the stream
 *
 * The stream's callback goes from entry to entry, which are ready then.  For
 * page numbers 7 7 3 9 3 the stream is asked for 7, 3 and 9 only:
 *
 *		7 streamed	7 repeated	3 streamed	9 streamed	3 direct
 *
 * - streamed: the page comes through the stream, whose pin is moved into the
 *   heap AM's fetch state.
 * - repeated: same page as the entry before; the heap AM still has it pinned.
 * - direct: an entry further ahead than the one before has this page already,
 *   queued and not consumed.  The heap AM reads it when its turn comes, and
 *   finds it in shared buffers.
 *
 * So there is never a second pin of ours on a page.  Every buffer that the
 * stream delivers is compared with the entry it is for: a mismatch is an
 * error, never a wrong row.
 *
 * How far ahead it reads is decided by the stream's own control: its distance
 * starts at 1 and doubles with each read it has to wait for, up to la_distance_limit().  A stream of
 * PostgreSQL 18 cannot be paused.  When the callback has nothing to give for
 * the moment (the ring is full, a Limit wants no more rows, the leaf of an
 * unlogged index must be finished first), it ends the stream; the rest is
 * consumed, and read_stream_reset() starts it again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "index_scan/la_heap_pin.h"
#include "index_scan/la_index_trust.h"
#include "index_scan/la_ring_fill.h"
#include "index_scan/la_ring_stream.h"
#include "prefetch/la_distance.h"
#include "prefetch/la_read_stream.h"

/* How many ready entries want a page for which the stream was asked. */
typedef struct LaQueuedBlock
{
	BlockNumber block;			/* hash key */
	uint32		entries;
	char		status;
} LaQueuedBlock;

#define SH_PREFIX blocktable
#define SH_ELEMENT_TYPE LaQueuedBlock
#define SH_KEY_TYPE BlockNumber
#define SH_KEY block
#define SH_HASH_KEY(tb, key) murmurhash32(key)
#define SH_EQUAL(tb, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* Initial size of the table of queued pages: arbitrary; it grows. */
#define BLOCK_TABLE_SIZE 64

typedef struct LaRingStream
{
	ReadStream *stream;
	bool		stopped;		/* the callback has ended the stream */
	Buffer		delivered;		/* came from the stream for a later entry */
	BlockNumber last_block;		/* of the last entry that is ready */
	blocktable_hash *queued;	/* pages of streamed and direct entries */
	uint32		queued_reads;	/* streamed entries not consumed */
} LaRingStream;

static void stream_create(LaTidRing *ring);
static void stream_start(LaTidRing *ring);
static bool stream_make_ready(LaTidRing *ring);
static void stream_before_fetch(LaTidRing *ring, const LaTidEntry *entry);
static void stream_reset(LaTidRing *ring);
static void stream_free(LaTidRing *ring);
static BlockNumber next_streamed_block(ReadStream *stream,
									   void *callback_private_data,
									   void *per_buffer_data);
static bool must_stop(LaTidRing *ring);
static bool route_entry(LaRingStream *state, LaTidEntry *entry);
static void take_streamed_page(LaTidRing *ring, const LaTidEntry *entry);
pg_noreturn static void report_mismatch(LaTidRing *ring, Buffer delivered,
										BlockNumber wanted);
static void forget_queued(LaRingStream *state, BlockNumber block);

const LaRingReader la_ring_stream = {
	.create = stream_create,
	.start = stream_start,
	.make_ready = stream_make_ready,
	.before_fetch = stream_before_fetch,
	.reset = stream_reset,
	.free = stream_free,
};

static void
stream_create(LaTidRing *ring)
{
	LaRingStream *state = palloc0_object(LaRingStream);
	Relation	table = ring->scan->heapRelation;
	bool		partial_fetch = ring->node->query->partial_fetch;

	state->delivered = InvalidBuffer;
	state->queued = blocktable_create(ring->context, BLOCK_TABLE_SIZE, NULL);

	/*
	 * No READ_STREAM_USE_BATCHING: the callback reads index pages, which can
	 * wait for I/O and locks.
	 */
	state->stream = la_read_stream_begin(READ_STREAM_DEFAULT, NULL, table,
										 next_streamed_block, ring, 0,
										 la_distance_limit(table, partial_fetch),
										 partial_fetch ? 1 : io_combine_limit);
	ring->reader_state = state;
}

static void
stream_start(LaTidRing *ring)
{
	LaRingStream *state = ring->reader_state;

	state->stopped = false;
	state->last_block = InvalidBlockNumber;
}

/*
 * Nothing was looked at beyond the rows already returned: cranks the stream
 * until an entry is.  Returns false at the end of the scan.
 */
static bool
stream_make_ready(LaTidRing *ring)
{
	LaRingStream *state = ring->reader_state;

	for (;;)
	{
		if (state->stopped)
		{
			if ((ring->exhausted || ring->draining) &&
				ring->consumed == ring->filled)
				return false;
			read_stream_reset(state->stream);
			state->stopped = false;
			ring->node->counters.restarts++;
		}
		Assert(!BufferIsValid(state->delivered));
		state->delivered = read_stream_next_buffer(state->stream, NULL);
		if (ring->consumed < ring->ready)
			return true;
		if (!state->stopped)
			report_mismatch(ring, state->delivered, InvalidBlockNumber);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Makes sure that the heap AM has the page.
 */
static void
stream_before_fetch(LaTidRing *ring, const LaTidEntry *entry)
{
	LaRingStream *state = ring->reader_state;

	if (entry->streamed)
		take_streamed_page(ring, entry);
	else
		ring->node->counters.direct++;
	forget_queued(state, ItemPointerGetBlockNumber(&entry->tid));
}

static void
stream_reset(LaTidRing *ring)
{
	LaRingStream *state = ring->reader_state;

	if (BufferIsValid(state->delivered))
	{
		ReleaseBuffer(state->delivered);
		state->delivered = InvalidBuffer;
	}
	read_stream_reset(state->stream);
	blocktable_reset(state->queued);
	state->queued_reads = 0;
}

static void
stream_free(LaTidRing *ring)
{
	LaRingStream *state = ring->reader_state;

	read_stream_end(state->stream);
	blocktable_destroy(state->queued);
	pfree(state);
}

/*
 * Read stream callback: the next page to read.  InvalidBlockNumber ends the
 * stream, for good or until it is reset.
 */
static BlockNumber
next_streamed_block(ReadStream *stream, void *callback_private_data,
					void *per_buffer_data)
{
	LaTidRing  *ring = (LaTidRing *) callback_private_data;
	LaRingStream *state = ring->reader_state;

	for (;;)
	{
		LaTidEntry *entry;

		if (must_stop(ring) ||
			(ring->ready == ring->filled && !la_ring_fill(ring)))
		{
			state->stopped = true;
			return InvalidBlockNumber;
		}
		entry = la_ring_entry(ring, ring->ready++);
		if (route_entry(state, entry))
			return state->last_block;
	}
}

/*
 * Must look-ahead stop here for the moment?  Never while there is nothing
 * ahead of the next row.
 */
static bool
must_stop(LaTidRing *ring)
{
	uint64		ahead = ring->ready - ring->consumed;

	if (ahead == 0)
		return false;
	if (ring->node->limit != NULL &&
		ahead >= la_registry_rows_wanted(ring->node))
		return true;
	return la_ring_stops_at_random(ring);
}

/*
 * Decides how the page of an entry is read.  Returns true if the stream shall
 * read it.
 */
static bool
route_entry(LaRingStream *state, LaTidEntry *entry)
{
	BlockNumber block = ItemPointerGetBlockNumber(&entry->tid);
	LaQueuedBlock *queued;
	bool		found;

	entry->streamed = false;
	if (block == state->last_block)
		return false;
	state->last_block = block;

	queued = blocktable_insert(state->queued, block, &found);
	if (found)
	{
		queued->entries++;
		return false;
	}
	queued->entries = 1;
	state->queued_reads++;
	entry->streamed = true;
	return true;
}

/*
 * Makes the page that the stream has read for an entry the current one.
 */
static void
take_streamed_page(LaTidRing *ring, const LaTidEntry *entry)
{
	LaRingStream *state = ring->reader_state;
	LaCounters *counters = &ring->node->counters;
	BlockNumber block = ItemPointerGetBlockNumber(&entry->tid);
	Buffer		buffer = state->delivered;
	uint32		distance = state->queued_reads - 1;

	state->delivered = InvalidBuffer;
	if (!BufferIsValid(buffer))
		buffer = read_stream_next_buffer(state->stream, NULL);
	if (!BufferIsValid(buffer) || BufferGetBlockNumber(buffer) != block)
		report_mismatch(ring, buffer, block);

	counters->prefetched++;
	counters->distance_sum += distance;
	counters->distance_max = Max(counters->distance_max, distance);
	state->queued_reads--;
	la_heap_pin_take(ring->heap_fetch, buffer);
}

/*
 * The stream has delivered another page than the one wanted, which cannot
 * happen.  Better no row than a wrong one; the next statement of this session
 * is left to core.
 */
static void
report_mismatch(LaTidRing *ring, Buffer delivered, BlockNumber wanted)
{
	la_index_distrust();
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("pg_lookahead was given block %u instead of block %u of relation \"%s\"",
					BufferIsValid(delivered) ? BufferGetBlockNumber(delivered) : InvalidBlockNumber,
					wanted,
					RelationGetRelationName(ring->scan->heapRelation)),
			 errhint("Repeat the statement: index scans of this session no longer prefetch.")));
}

/*
 * An entry that wanted this page is being consumed: once no other that is ready
 * wants it, the stream may be asked for it again.
 */
static void
forget_queued(LaRingStream *state, BlockNumber block)
{
	LaQueuedBlock *queued = blocktable_lookup(state->queued, block);

	Assert(queued != NULL && queued->entries > 0);
	if (--queued->entries == 0)
		blocktable_delete_item(state->queued, queued);
}
