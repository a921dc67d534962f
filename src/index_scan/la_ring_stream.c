/*-------------------------------------------------------------------------
 *
 * la_ring_stream.c
 *	  has the pages of a ring's entries read by a read stream
 *
 *		consumed  <=  routed  <=  filled			(counts of entries)
 *
 *		.. 41 42 | 43 44 45 46 47 | 48 49 50 | 51 ..
 *		         ^ next row       ^ next     ^ next from the AM
 *		                            block for the stream
 *
 * The stream's callback routes entries one by one.  For page numbers
 * 7 7 3 9 3 the stream is asked for 7, 3 and 9 only:
 *
 *		7 STREAM	7 REPEATED	3 STREAM	9 STREAM	3 DIRECT
 *
 * - STREAM: the page comes through the stream, whose pin is moved into the
 *   heap AM's fetch state.
 * - REPEATED: same page as the entry before; the heap AM still has it pinned.
 * - DIRECT: an entry further ahead than the one before has this page already,
 *   queued and not consumed.  The heap AM reads it when its turn comes, and
 *   finds it in shared buffers.
 *
 * So there is never a second pin of ours on a page.  Every buffer that the
 * stream delivers is compared with the entry it is for: a mismatch is an
 * error, never a wrong row.
 *
 * How far ahead it reads is decided by the stream's own control: its distance
 * starts at 1 and doubles with each read it has to wait for.  A stream of
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

#include "index_scan/la_ring_stream.h"
#include "prefetch/la_read_stream.h"

/* How many routed entries want a page for which the stream was asked. */
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

struct LaRingStream
{
	ReadStream *stream;
	uint64		routed;			/* entries before this one have been routed */
	bool		stopped;		/* the callback has ended the stream */
	Buffer		delivered;		/* came from the stream for a later entry */
	BlockNumber last_block;		/* of the entry routed last */
	blocktable_hash *queued;	/* pages of STREAM and DIRECT entries */
	uint32		queued_reads;	/* STREAM entries not consumed */
};

static BlockNumber next_block(ReadStream *stream, void *callback_private_data,
							  void *per_buffer_data);
static bool must_stop(LaTidRing *ring);
static bool route_entry(LaTidRing *ring, LaTidEntry *entry);
static bool route_next(LaTidRing *ring);
static void take_streamed_page(LaTidRing *ring, const LaTidEntry *entry);
pg_noreturn static void report_mismatch(LaTidRing *ring, Buffer delivered,
										BlockNumber wanted);
static void forget_queued(LaTidRing *ring, const LaTidEntry *entry);

/*
 * Allocates in the current memory context.  At most so many reads will be in
 * flight.
 */
LaRingStream *
la_ring_stream_create(LaTidRing *ring, int distance)
{
	LaRingStream *state = palloc0_object(LaRingStream);

	state->delivered = InvalidBuffer;
	state->queued = blocktable_create(ring->fetch->context, BLOCK_TABLE_SIZE,
									  NULL);

	/*
	 * No READ_STREAM_USE_BATCHING: the callback reads index pages, which can
	 * wait for I/O and locks.
	 */
	state->stream = la_read_stream_begin(READ_STREAM_DEFAULT, NULL,
										 ring->fetch->scan->heapRelation,
										 next_block, ring, 0, distance,
										 ring->fetch->node->query->partial_fetch ? 1 : io_combine_limit);
	return state;
}

/*
 * The ring starts from empty.
 */
void
la_ring_stream_start(LaTidRing *ring)
{
	LaRingStream *state = ring->stream;

	state->routed = 0;
	state->stopped = false;
	state->last_block = InvalidBlockNumber;
}

/*
 * Is there an entry to consume?
 */
bool
la_ring_stream_ready(LaTidRing *ring)
{
	return ring->consumed < ring->stream->routed || route_next(ring);
}

/*
 * The row of the next entry is about to be fetched: makes sure that the heap
 * AM has its page.
 */
void
la_ring_stream_before_fetch(LaTidRing *ring, const LaTidEntry *entry)
{
	LaScanCounters *counters = &ring->fetch->node->counters;

	if (entry->route == LA_ROUTE_STREAM)
		take_streamed_page(ring, entry);
	else if (entry->route == LA_ROUTE_DIRECT)
		counters->direct++;
	else
		counters->repeated++;
}

/*
 * The row has been fetched.
 */
void
la_ring_stream_after_fetch(LaTidRing *ring, const LaTidEntry *entry)
{
	if (entry->route != LA_ROUTE_REPEATED)
		forget_queued(ring, entry);
}

/*
 * Drops what has been read ahead.
 */
void
la_ring_stream_reset(LaTidRing *ring)
{
	LaRingStream *state = ring->stream;

	if (BufferIsValid(state->delivered))
	{
		ReleaseBuffer(state->delivered);
		state->delivered = InvalidBuffer;
	}
	read_stream_reset(state->stream);
	blocktable_reset(state->queued);
	state->queued_reads = 0;
	state->routed = 0;
}

/*
 * Frees what has been reset.
 */
void
la_ring_stream_free(LaTidRing *ring)
{
	read_stream_end(ring->stream->stream);
	blocktable_destroy(ring->stream->queued);
	pfree(ring->stream);
}

/*
 * Read stream callback: the next page to read.  InvalidBlockNumber ends the
 * stream, for good or until it is reset.
 */
static BlockNumber
next_block(ReadStream *stream, void *callback_private_data,
		   void *per_buffer_data)
{
	LaTidRing  *ring = (LaTidRing *) callback_private_data;
	LaRingStream *state = ring->stream;

	for (;;)
	{
		LaTidEntry *entry;

		if (must_stop(ring) ||
			(state->routed == ring->filled && !la_tid_ring_fill(ring)))
		{
			state->stopped = true;
			return InvalidBlockNumber;
		}
		entry = la_tid_ring_entry(ring, state->routed++);
		if (route_entry(ring, entry))
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
	LaRingStream *state = ring->stream;
	uint64		ahead = state->routed - ring->consumed;

	if (ahead == 0)
		return false;
	if (ring->fetch->node->limit != NULL &&
		ahead >= la_registry_rows_wanted(ring->fetch->node))
		return true;
	return la_tid_ring_stops_at_random(ring);
}

/*
 * Decides how the page of an entry is read.  Returns true if the stream shall
 * read it.
 */
static bool
route_entry(LaTidRing *ring, LaTidEntry *entry)
{
	LaRingStream *state = ring->stream;
	BlockNumber block = ItemPointerGetBlockNumber(&entry->tid);
	LaQueuedBlock *queued;
	bool		found;

	if (block == state->last_block)
	{
		entry->route = LA_ROUTE_REPEATED;
		return false;
	}
	state->last_block = block;

	queued = blocktable_insert(state->queued, block, &found);
	if (found)
	{
		queued->entries++;
		entry->route = LA_ROUTE_DIRECT;
		return false;
	}
	queued->entries = 1;
	state->queued_reads++;
	entry->route = LA_ROUTE_STREAM;
	return true;
}

/*
 * Nothing is routed beyond the rows already returned: cranks the stream until
 * an entry is.  Returns false at the end of the scan.
 */
static bool
route_next(LaTidRing *ring)
{
	LaRingStream *state = ring->stream;

	for (;;)
	{
		if (state->stopped)
		{
			if (ring->exhausted && ring->consumed == ring->filled)
				return false;
			read_stream_reset(state->stream);
			state->stopped = false;
			ring->fetch->node->counters.restarts++;
		}
		Assert(!BufferIsValid(state->delivered));
		state->delivered = read_stream_next_buffer(state->stream, NULL);
		if (ring->consumed < state->routed)
			return true;
		if (!state->stopped)
			report_mismatch(ring, state->delivered, InvalidBlockNumber);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Makes the page that the stream has read for an entry the current one.
 */
static void
take_streamed_page(LaTidRing *ring, const LaTidEntry *entry)
{
	LaRingStream *state = ring->stream;
	LaScanCounters *counters = &ring->fetch->node->counters;
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
	la_index_fetch_take_pin(ring->fetch, buffer);
}

/*
 * The stream has delivered another page than the one wanted, which cannot
 * happen.  Better no row than a wrong one; the next statement of this session
 * is left to core.
 */
static void
report_mismatch(LaTidRing *ring, Buffer delivered, BlockNumber wanted)
{
	la_index_fetch_distrust();
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("pg_lookahead was given block %u instead of block %u of relation \"%s\"",
					BufferIsValid(delivered) ? BufferGetBlockNumber(delivered) : InvalidBlockNumber,
					wanted,
					RelationGetRelationName(ring->fetch->scan->heapRelation)),
			 errhint("Repeat the statement: index scans of this session no longer prefetch.")));
}

/*
 * The page of this entry has been used: once no routed entry wants it any
 * more, the stream may be asked for it again.
 */
static void
forget_queued(LaTidRing *ring, const LaTidEntry *entry)
{
	LaRingStream *state = ring->stream;
	BlockNumber block = ItemPointerGetBlockNumber(&entry->tid);
	LaQueuedBlock *queued = blocktable_lookup(state->queued, block);

	Assert(queued != NULL && queued->entries > 0);
	if (--queued->entries == 0)
		blocktable_delete_item(state->queued, queued);
}
