/*-------------------------------------------------------------------------
 *
 * la_tid_ring.c
 *	  index entries read ahead, and the read stream over their table pages
 *
 * A ring of index entries lies between the index AM, which fills it, and the
 * executor, which consumes it.  Between the two, a ReadStream asks for the
 * table pages of the entries:
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
 * How far ahead the pages are asked for depends on the transport (see
 * la_transport.c).  Either the stream's own control decides: its distance
 * starts at 1 and doubles with each read it has to wait for.  Or the stream
 * only reads each page on its turn, and the callback gives the kernel advice
 * for the entries after those routed.
 *
 * A stream of PostgreSQL
 * 18 cannot be paused.  When the callback has nothing to give for the moment
 * (the ring is full, a Limit wants no more rows, the leaf of an unlogged index
 * must be finished first), it ends the stream; the rest is consumed, and
 * read_stream_reset() starts it again.
 *
 * The row itself is fetched by core's index_fetch_heap(), so visibility, HOT
 * chains, predicate locks and statistics are core's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "storage/read_stream.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "index_scan/la_btree_kill.h"
#include "index_scan/la_tid_ring.h"
#include "la_guc.h"
#include "prefetch/la_transport.h"

/* First capacity of a ring, in entries: arbitrary; doubled when it is full. */
#define RING_SIZE_INITIAL 256

/*
 * Reads in flight when pg_lookahead.prefetch_distance is 0 and
 * effective_io_concurrency is not larger.  On the devices measured, 64 gains
 * another fifth over 16 and larger values hardly anything (docs/benchmarks.md).
 */
#define AUTOMATIC_DISTANCE 64

/*
 * Reads in flight for a query whose rows are fetched a few at a time.  The
 * stream pins one page more than this, and the current row one: 9 in all
 * while the query stands idle.
 */
#define PARTIAL_FETCH_DISTANCE 7

/* One random stop in so many entries, with test_stop_seed. */
#define TEST_STOP_ONE_IN 16

typedef enum LaRoute
{
	LA_ROUTE_STREAM,
	LA_ROUTE_REPEATED,
	LA_ROUTE_DIRECT,
} LaRoute;

/* An index entry read ahead: 12 bytes. */
typedef struct LaTidEntry
{
	ItemPointerData tid;
	uint16		item;			/* see LaLeafItem */
	OffsetNumber offset;
	uint8		leaf;
	uint8		route:2;		/* LaRoute, once routed */
	uint8		opens_page:1;	/* first of its page among those advised */
} LaTidEntry;

StaticAssertDecl(sizeof(LaTidEntry) == 12, "a ring entry has 12 bytes");

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

struct LaTidRing
{
	LaIndexFetch *fetch;
	ScanDirection direction;

	LaTidEntry *entries;
	uint32		capacity;		/* a power of two */
	uint32		max_capacity;
	uint64		consumed;
	uint64		routed;
	uint64		filled;
	bool		exhausted;		/* the AM has no more entries */

	ReadStream *stream;
	bool		stopped;		/* the callback has ended the stream */
	LaTransport transport;
	LaAdvice	advice;
	uint64		advised;		/* entries before this one were advised */
	uint32		pages_ahead;	/* pages between routed and advised */
	BlockNumber last_advised;
	Buffer		delivered;		/* came from the stream for a later entry */
	BlockNumber last_block;		/* of the entry routed last */
	blocktable_hash *queued;	/* pages of STREAM and DIRECT entries */
	uint32		queued_reads;	/* STREAM entries not consumed */

	LaLeafQueue leaves;
	uint32		test_depth;
	pg_prng_state test_random;
};

static ReadStream *begin_stream(LaTidRing *ring);
static int	reads_in_flight(const LaTidRing *ring);
static BlockNumber next_block(ReadStream *stream, void *callback_private_data,
							  void *per_buffer_data);
static void advise_ahead(LaTidRing *ring);
static void advise_entry(LaTidRing *ring, LaTidEntry *entry);
static bool must_stop(LaTidRing *ring);
static bool route_entry(LaTidRing *ring, LaTidEntry *entry);
static bool fill_one(LaTidRing *ring);
static bool make_room(LaTidRing *ring);
static LaTidEntry *entry_at(LaTidRing *ring, uint64 position);
static bool route_next(LaTidRing *ring);
static bool fetch_row(LaTidRing *ring, TupleTableSlot *slot);
static void take_streamed_page(LaTidRing *ring, const LaTidEntry *entry);
pg_noreturn static void report_mismatch(LaTidRing *ring, Buffer delivered,
										BlockNumber wanted);
static void forget_queued(LaTidRing *ring, const LaTidEntry *entry);
static void apply_test_settings(LaTidRing *ring);
static void fill_to_test_depth(LaTidRing *ring);

/*
 * Allocates a ring for a scan, in the memory of its query.
 */
LaTidRing *
la_tid_ring_create(LaIndexFetch *fetch)
{
	MemoryContext old = MemoryContextSwitchTo(fetch->context);
	LaTidRing  *ring = palloc0_object(LaTidRing);

	ring->fetch = fetch;
	ring->capacity = RING_SIZE_INITIAL;
	ring->max_capacity = LA_RING_SIZE_MAX;
	apply_test_settings(ring);
	ring->entries = palloc_array(LaTidEntry, ring->capacity);
	ring->delivered = InvalidBuffer;
	ring->queued = blocktable_create(fetch->context, BLOCK_TABLE_SIZE, NULL);
	la_leaf_queue_init(&ring->leaves, fetch->context);
	ring->transport = la_transport_choose();
	ring->stream = begin_stream(ring);
	MemoryContextSwitchTo(old);
	return ring;
}

/*
 * Starts to read ahead from where the index AM stands.
 */
void
la_tid_ring_start(LaTidRing *ring, ScanDirection direction)
{
	ring->direction = direction;
	ring->consumed = ring->routed = ring->filled = 0;
	ring->advised = 0;
	ring->pages_ahead = 0;
	ring->last_advised = InvalidBlockNumber;
	la_advice_start(&ring->advice, reads_in_flight(ring));
	ring->exhausted = false;
	ring->stopped = false;
	ring->last_block = InvalidBlockNumber;
	la_leaf_queue_start(&ring->leaves, ring->fetch->scan);
	ring->fetch->node->counters.scans++;
}

/*
 * Puts the next visible row into the slot.  Returns false at the end.
 */
bool
la_tid_ring_next(LaTidRing *ring, ScanDirection direction,
				 TupleTableSlot *slot)
{
	if (unlikely(direction != ring->direction))
		elog(ERROR, "index scan changed direction while reading ahead");

	for (;;)
	{
		if (ring->test_depth > 0)
			fill_to_test_depth(ring);
		if (ring->consumed == ring->routed && !route_next(ring))
		{
			la_index_fetch_release_pin(ring->fetch);
			return false;
		}
		if (fetch_row(ring, slot))
			return true;
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Drops everything that was read ahead.  The index AM must still stand where
 * look-ahead has left it.
 */
void
la_tid_ring_reset(LaTidRing *ring)
{
	la_leaf_queue_reset(&ring->leaves, ring->fetch->scan);
	if (BufferIsValid(ring->delivered))
	{
		ReleaseBuffer(ring->delivered);
		ring->delivered = InvalidBuffer;
	}
	read_stream_reset(ring->stream);
	blocktable_reset(ring->queued);
	ring->queued_reads = 0;
	ring->consumed = ring->routed = ring->filled = 0;
}

/*
 * Frees a ring that has been reset.
 */
void
la_tid_ring_free(LaTidRing *ring)
{
	read_stream_end(ring->stream);
	blocktable_destroy(ring->queued);
	if (ring->leaves.dead != NULL)
		pfree(ring->leaves.dead);
	pfree(ring->entries);
	pfree(ring);
}

/*
 * Begins the read stream.  It takes its limits from settings when it is
 * created and keeps them, so they are set to ours for that one call.  A
 * tablespace option effective_io_concurrency overrides the setting, in there;
 * nothing can be done about that.
 *
 * No READ_STREAM_USE_BATCHING: the callback reads index pages, which can wait
 * for I/O and locks.
 */
static ReadStream *
begin_stream(LaTidRing *ring)
{
	int			saved_concurrency = effective_io_concurrency;
	int			saved_combine_limit = io_combine_limit;
	ReadStream *stream = NULL;

	PG_TRY();
	{
		effective_io_concurrency =
			ring->transport == LA_TRANSPORT_STREAM ? reads_in_flight(ring) : 0;
		if (ring->fetch->node->query->partial_fetch)
			io_combine_limit = 1;
		stream = read_stream_begin_relation(READ_STREAM_DEFAULT, NULL,
											ring->fetch->scan->heapRelation,
											MAIN_FORKNUM, next_block, ring, 0);
	}
	PG_FINALLY();
	{
		effective_io_concurrency = saved_concurrency;
		io_combine_limit = saved_combine_limit;
	}
	PG_END_TRY();
	return stream;
}

/*
 * How many reads the stream may have in flight.
 */
static int
reads_in_flight(const LaTidRing *ring)
{
	int			distance = la_prefetch_distance;

	if (distance == 0)
		distance = Max(effective_io_concurrency, AUTOMATIC_DISTANCE);
	if (ring->fetch->node->query->partial_fetch)
		distance = Min(distance, PARTIAL_FETCH_DISTANCE);
	return distance;
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

	for (;;)
	{
		LaTidEntry *entry;

		if (must_stop(ring) ||
			(ring->routed == ring->filled && !fill_one(ring)))
		{
			ring->stopped = true;
			return InvalidBlockNumber;
		}
		entry = entry_at(ring, ring->routed++);
		if (route_entry(ring, entry))
		{
			if (ring->transport == LA_TRANSPORT_ADVICE)
				advise_ahead(ring);
			return ring->last_block;
		}
	}
}

/*
 * Gives advice for the entries that follow those routed, as far as the
 * distance allows and a Limit wants them.
 */
static void
advise_ahead(LaTidRing *ring)
{
	uint64		wanted = la_index_fetch_rows_wanted(ring->fetch);

	la_advice_adapt(&ring->advice);
	ring->advised = Max(ring->advised, ring->routed);
	while (ring->pages_ahead < ring->advice.distance &&
		   ring->advised - ring->consumed < wanted &&
		   (ring->advised < ring->filled || fill_one(ring)))
		advise_entry(ring, entry_at(ring, ring->advised++));
}

/*
 * Gives advice for the page of one entry, unless it is that of the entry
 * before.
 */
static void
advise_entry(LaTidRing *ring, LaTidEntry *entry)
{
	BlockNumber block = ItemPointerGetBlockNumber(&entry->tid);

	if (block == ring->last_advised)
		return;
	ring->last_advised = block;
	entry->opens_page = true;
	ring->pages_ahead++;
	if (la_advice_give(&ring->advice, ring->fetch->scan->heapRelation, block))
		ring->fetch->node->counters.advised++;
}

/*
 * Must look-ahead stop here for the moment?  Never while there is nothing
 * ahead of the next row.
 */
static bool
must_stop(LaTidRing *ring)
{
	uint64		ahead = ring->routed - ring->consumed;

	if (ahead == 0)
		return false;
	if (ring->fetch->node->limit != NULL &&
		ahead >= la_index_fetch_rows_wanted(ring->fetch))
		return true;
#ifdef LA_TEST
	if (la_test_stop_seed != 0 &&
		pg_prng_uint64_range(&ring->test_random, 1, TEST_STOP_ONE_IN) == 1)
		return true;
#endif
	return false;
}

/*
 * Decides how the page of an entry is read.  Returns true if the stream shall
 * read it.
 */
static bool
route_entry(LaTidRing *ring, LaTidEntry *entry)
{
	BlockNumber block = ItemPointerGetBlockNumber(&entry->tid);
	LaQueuedBlock *queued;
	bool		found;

	if (entry->opens_page)
		ring->pages_ahead--;
	if (block == ring->last_block)
	{
		entry->route = LA_ROUTE_REPEATED;
		return false;
	}
	ring->last_block = block;

	queued = blocktable_insert(ring->queued, block, &found);
	if (found)
	{
		queued->entries++;
		entry->route = LA_ROUTE_DIRECT;
		return false;
	}
	queued->entries = 1;
	ring->queued_reads++;
	entry->route = LA_ROUTE_STREAM;
	return true;
}

/*
 * Asks the index AM for one entry.  Returns false if there is none, or if
 * it must not be asked for the moment.  Calls amgettuple itself, because
 * index_getnext_tid() would count the entry now and, at the end, reset us.
 */
static bool
fill_one(LaTidRing *ring)
{
	IndexScanDesc scan = ring->fetch->scan;
	LaTidEntry *entry;
	LaLeafItem	item;
	bool		leaves_page;
	bool		found;

	if (ring->exhausted || !make_room(ring) ||
		!la_leaf_queue_may_advance(&ring->leaves, scan, ring->direction,
								   &leaves_page))
		return false;

	Assert(!scan->kill_prior_tuple);
	found = scan->indexRelation->rd_indam->amgettuple(scan, ring->direction);
	la_leaf_queue_advanced(&ring->leaves, scan, found, leaves_page, &item);
	if (!found)
	{
		ring->exhausted = true;
		return false;
	}

	entry = entry_at(ring, ring->filled++);
	entry->tid = scan->xs_heaptid;
	entry->item = item.item;
	entry->offset = item.offset;
	entry->leaf = item.leaf;
	entry->opens_page = false;
	return true;
}

/*
 * Makes room for one more entry: doubles the ring up to its bound.
 */
static bool
make_room(LaTidRing *ring)
{
	LaTidEntry *entries;
	uint32		capacity = ring->capacity * 2;

	if (ring->filled - ring->consumed < ring->capacity)
		return true;
	if (ring->capacity >= ring->max_capacity)
		return false;

	entries = MemoryContextAlloc(ring->fetch->context,
								 capacity * sizeof(LaTidEntry));
	for (uint64 i = ring->consumed; i < ring->filled; i++)
		entries[i & (capacity - 1)] = *entry_at(ring, i);
	pfree(ring->entries);
	ring->entries = entries;
	ring->capacity = capacity;
	return true;
}

static LaTidEntry *
entry_at(LaTidRing *ring, uint64 position)
{
	return &ring->entries[position & (ring->capacity - 1)];
}

/*
 * Nothing is routed beyond the rows already returned: cranks the stream until
 * an entry is.  Returns false at the end of the scan.
 */
static bool
route_next(LaTidRing *ring)
{
	for (;;)
	{
		if (ring->stopped)
		{
			if (ring->exhausted && ring->consumed == ring->filled)
				return false;
			read_stream_reset(ring->stream);
			ring->stopped = false;
			ring->fetch->node->counters.restarts++;
		}
		Assert(!BufferIsValid(ring->delivered));
		ring->delivered = read_stream_next_buffer(ring->stream, NULL);
		if (ring->consumed < ring->routed)
			return true;
		if (!ring->stopped)
			report_mismatch(ring, ring->delivered, InvalidBlockNumber);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Consumes an entry.  Returns true with its row in the slot, or false if no
 * row of it is visible.
 */
static bool
fetch_row(LaTidRing *ring, TupleTableSlot *slot)
{
	IndexScanDesc scan = ring->fetch->scan;
	LaScanCounters *counters = &ring->fetch->node->counters;
	LaTidEntry	entry = *entry_at(ring, ring->consumed);
	LaLeafItem	item;
	bool		found;
	bool		is_dead;

	if (entry.route == LA_ROUTE_STREAM)
		take_streamed_page(ring, &entry);
	else if (entry.route == LA_ROUTE_DIRECT)
		counters->direct++;
	else
		counters->repeated++;

	scan->xs_heaptid = entry.tid;
	scan->xs_recheck = false;
	scan->xs_heap_continue = false;
	pgstat_count_index_tuples(scan->indexRelation, 1);
	found = index_fetch_heap(scan, slot);
	is_dead = scan->kill_prior_tuple;
	scan->kill_prior_tuple = false;

	if (entry.route != LA_ROUTE_REPEATED)
		forget_queued(ring, &entry);
	ring->consumed++;
	item.item = entry.item;
	item.offset = entry.offset;
	item.leaf = entry.leaf;
	la_leaf_queue_consumed(&ring->leaves, scan, &item, &entry.tid, is_dead,
						   counters);
	return found;
}

/*
 * Makes the page that the stream has read for an entry the current one.
 */
static void
take_streamed_page(LaTidRing *ring, const LaTidEntry *entry)
{
	LaScanCounters *counters = &ring->fetch->node->counters;
	BlockNumber block = ItemPointerGetBlockNumber(&entry->tid);
	Buffer		buffer = ring->delivered;
	uint32		distance;

	ring->delivered = InvalidBuffer;
	if (!BufferIsValid(buffer))
		buffer = read_stream_next_buffer(ring->stream, NULL);
	if (!BufferIsValid(buffer) || BufferGetBlockNumber(buffer) != block)
		report_mismatch(ring, buffer, block);

	distance = ring->queued_reads + ring->pages_ahead;
	counters->prefetched++;
	counters->distance_sum += distance;
	counters->distance_max = Max(counters->distance_max, distance);
	ring->queued_reads--;
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
	BlockNumber block = ItemPointerGetBlockNumber(&entry->tid);
	LaQueuedBlock *queued = blocktable_lookup(ring->queued, block);

	Assert(queued != NULL && queued->entries > 0);
	if (--queued->entries == 0)
		blocktable_delete_item(ring->queued, queued);
}

/*
 * Lets the test settings override the size of the ring and seed its random
 * stops.
 */
static void
apply_test_settings(LaTidRing *ring)
{
#ifdef LA_TEST
	ring->test_depth = la_test_depth;
	if (la_test_ring_size > 0)
	{
		ring->max_capacity = pg_nextpower2_32(Max(la_test_ring_size,
												  LA_RING_SIZE_MIN));
		ring->capacity = Min(ring->capacity, ring->max_capacity);
	}
	pg_prng_seed(&ring->test_random, (uint64) la_test_stop_seed);
#endif
}

/*
 * With test_depth, asks the AM for so many entries ahead at once; with
 * test_stop_seed too, for a random number up to that.
 */
static void
fill_to_test_depth(LaTidRing *ring)
{
#ifdef LA_TEST
	uint64		depth = ring->test_depth;

	if (la_test_stop_seed != 0)
		depth = pg_prng_uint64_range(&ring->test_random, 1, depth);
	while (ring->filled - ring->consumed < depth && fill_one(ring))
		;
#endif
}
