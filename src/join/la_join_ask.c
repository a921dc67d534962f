/*-------------------------------------------------------------------------
 *
 * la_join_ask.c
 *	  which pages are asked for outer rows that were drawn ahead
 *
 * Two stages: a row's key is looked up in the index as far as pages are in shared buffers
 * (la_join_peek.c).  Where one is not, the kernel is asked for it, and the row waits.  When it has had time
 * to come, which is when NEWER_WAITS others have been asked for since, or half the way to
 * the row's turn has passed, the look goes on there.  At a leaf, the kernel is asked for
 * the table's pages, of an index-only scan for those that are not all-visible.
 *
 * Both stages have a budget of their own, or the first, which has more to ask for while the index is
 * cold, would leave nothing to the second, which is what the first is for.  The second may
 * go beyond its own, up to twice as much, for rows that have waited.
 *
 * A join that wants one match per row, as a semi join, asks for one page, for twice as many when
 * a row had more pages read than were asked for, and for one less after TOO_MANY_ROWS rows that needed
 * fewer.
 *
 * Reads NestLoopState of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

#include "join/la_join_ask.h"
#include "prefetch/la_distance.h"
#include "prefetch/la_request.h"
#include "prefetch/la_shared_buffer.h"
#include "prefetch/la_wake.h"

/* Newer requests after which an index page should have come: arbitrary. */
#define NEWER_WAITS 16

/* Rows after which a page less is asked for: arbitrary. */
#define TOO_MANY_ROWS 8

static bool is_ready(const LaJoinAsk *ask, const LaJoinRing *ring,
					 uint32 position);
static void look_up(LaJoinAsk *ask, const LaJoinRing *ring, LaJoinRow *row,
					int target);
static void begin_wait(LaJoinAsk *ask, const LaJoinRing *ring, LaJoinRow *row,
					   int target, BlockNumber block);
static void end_wait(LaJoinAsk *ask, LaJoinRow *row, int target);
static void ask_for_table(LaJoinAsk *ask, LaJoinRow *row,
						  const LaJoinTarget *target, const LaPeek *peek);
static bool recently_asked(LaJoinAsk *ask, Relation relation, BlockNumber block);
static void request(LaJoinAsk *ask, Relation relation, BlockNumber block);

/*
 * Prepares to ask for the rows of a join.  False when its inner side has nothing that
 * could be asked for.  Allocates in the current memory context.
 */
bool
la_join_ask_init(LaJoinAsk *ask, NestLoopState *join, LaNode *node)
{
	ask->targets = palloc_array(LaJoinTarget, LA_JOIN_TARGETS);
	ask->ntargets = la_join_targets_find(join, ask->targets);
	if (ask->ntargets == 0)
		return false;
	ask->node = node;
	ask->scratch = AllocSetContextCreate(CurrentMemoryContext,
										 "pg_lookahead join keys",
										 ALLOCSET_SMALL_SIZES);
	ask->most_requests = Max(la_distance_limit(ask->targets[0].table, false), 1);
	ask->one_match = join->js.single_match || join->js.jointype == JOIN_SEMI ||
		join->js.jointype == JOIN_ANTI;
	ask->matches = 1;
	la_residency_init(&ask->residency, ask->targets[0].table);
	return true;
}

/*
 * A page was read that had not been asked for.  Did it come from a device, or may
 * have?
 */
bool
la_join_ask_may_wake(LaJoinAsk *ask)
{
	return !ask->useless || la_residency_read(&ask->residency);
}

/*
 * Begins to ask, with few requests.
 */
void
la_join_ask_start(LaJoinAsk *ask)
{
	la_residency_init(&ask->residency, ask->targets[0].table);
	ask->useless = false;
	ask->idle_rows = 0;
	ask->request_limit = la_wake_forced() ? ask->most_requests : 1;
}

/*
 * All rows are dropped.
 */
void
la_join_ask_reset(LaJoinAsk *ask)
{
	ask->table_requests = 0;
	ask->index_requests = 0;
	ask->first_waiting = 0;
}

/*
 * Another row is wanted: more requests may be in flight.
 */
void
la_join_ask_grow(LaJoinAsk *ask)
{
	ask->request_limit = Min(ask->request_limit * 2, ask->most_requests);
}

/*
 * Are there enough requests?  While index pages are on their way, and fewer than may
 * be, the next row is for the first stage.
 */
bool
la_join_ask_is_full(const LaJoinAsk *ask)
{
	if (ask->index_requests >= ask->request_limit)
		return true;
	if (ask->index_requests == 0)
		return ask->table_requests >= ask->request_limit;
	return ask->table_requests > 2 * ask->request_limit;
}

/*
 * Looks a new row up, which will be the last of the ring.
 */
void
la_join_ask_for_row(LaJoinAsk *ask, const LaJoinRing *ring, LaJoinRow *row)
{
	row->requests = 0;
	row->nwaits = 0;
	ask->rows++;
	ask->idle_rows++;
	for (int target = 0; target < ask->ntargets; target++)
	{
		row->waits[target] = InvalidBlockNumber;
		row->counted[target] = false;
		look_up(ask, ring, row, target);
	}
}

/*
 * Goes on with rows that have waited long enough.
 */
void
la_join_ask_waiting(LaJoinAsk *ask, const LaJoinRing *ring, bool at_end)
{
	if ((int32) (ask->first_waiting - ring->head) < 0)
		ask->first_waiting = ring->head;
	for (uint32 position = ask->first_waiting; position != ring->tail; position++)
	{
		LaJoinRow  *row = la_join_row(ring, position);

		if (ask->table_requests >= 2 * ask->request_limit)
			return;
		if (row->nwaits == 0)
		{
			if (position == ask->first_waiting)
				ask->first_waiting++;
			continue;
		}
		if (!at_end && !is_ready(ask, ring, position))
			continue;
		for (int target = 0; target < ask->ntargets; target++)
		{
			if (row->waits[target] != InvalidBlockNumber)
				look_up(ask, ring, row, target);
		}
	}
}

/*
 * The oldest row is handed out.
 */
void
la_join_ask_hand_out(LaJoinAsk *ask)
{
	ask->reads = la_reads();
}

/*
 * It is done with.
 */
void
la_join_ask_retire(LaJoinAsk *ask, const LaJoinRow *row)
{
	ask->table_requests -= row->requests;
	for (int target = 0; target < ask->ntargets; target++)
	{
		if (row->counted[target])
			ask->index_requests--;
	}
	if (!ask->one_match)
		return;
	if (la_reads() - ask->reads > row->requests)
		ask->matches = Min(ask->matches * 2, LA_PEEK_BLOCKS);
	else if (la_reads() - ask->reads < row->requests && ask->matches > 1 &&
			 ++ask->too_many >= TOO_MANY_ROWS)
	{
		ask->matches--;
		ask->too_many = 0;
	}
}

/*
 * Should the index page have come that a row waits for?
 */
static bool
is_ready(const LaJoinAsk *ask, const LaJoinRing *ring, uint32 position)
{
	const LaJoinRow *row = la_join_row(ring, position);

	return ask->order - row->order >= Min(NEWER_WAITS, ask->request_limit) ||
		(ring->head - row->head) * 2 >= position - row->head;
}

/*
 * Looks a row up in an index, from the root or where it had to wait.
 */
static void
look_up(LaJoinAsk *ask, const LaJoinRing *ring, LaJoinRow *row, int target)
{
	LaJoinTarget *where = &ask->targets[target];
	BlockNumber from = row->waits[target];
	MemoryContext old;
	LaPeek		peek;

	end_wait(ask, row, target);
	if (!la_join_target_fill(where, row->slot))
		return;
	old = MemoryContextSwitchTo(ask->scratch);
	la_join_peek(where->index, where->search, from,
				 ask->one_match ? ask->matches : LA_PEEK_BLOCKS, &peek);
	MemoryContextSwitchTo(old);
	MemoryContextReset(ask->scratch);

	if (peek.missing != InvalidBlockNumber)
		begin_wait(ask, ring, row, target, peek.missing);
	ask_for_table(ask, row, where, &peek);
}

static void
begin_wait(LaJoinAsk *ask, const LaJoinRing *ring, LaJoinRow *row, int target,
		   BlockNumber block)
{
	Relation	index = ask->targets[target].index;

	row->waits[target] = block;
	row->nwaits++;
	row->head = ring->head;
	row->order = ask->order++;
	if (recently_asked(ask, index, block))
		return;
	row->counted[target] = true;
	ask->index_requests++;
	request(ask, index, block);
}

static void
end_wait(LaJoinAsk *ask, LaJoinRow *row, int target)
{
	if (row->waits[target] == InvalidBlockNumber)
		return;
	row->waits[target] = InvalidBlockNumber;
	row->nwaits--;
	if (row->counted[target])
		ask->index_requests--;
	row->counted[target] = false;
}

/*
 * Asks for the table pages of a row that are not in shared buffers.
 */
static void
ask_for_table(LaJoinAsk *ask, LaJoinRow *row, const LaJoinTarget *target,
			  const LaPeek *peek)
{
	Buffer		map_buffer = InvalidBuffer;

	for (int i = 0; i < peek->nblocks; i++)
	{
		BlockNumber block = peek->blocks[i];

		if (target->index_only &&
			VM_ALL_VISIBLE(target->table, block, &map_buffer))
			continue;
		ask->node->counters.prefetched++;
		if (BufferIsValid(la_shared_buffer_find(target->table, block)) ||
			recently_asked(ask, target->table, block))
			continue;
		row->requests++;
		ask->table_requests++;
		request(ask, target->table, block);
	}
	if (BufferIsValid(map_buffer))
		ReleaseBuffer(map_buffer);
}

/*
 * Was this page asked for, for one of the rows in the ring?  Remembers it.
 */
static bool
recently_asked(LaJoinAsk *ask, Relation relation, BlockNumber block)
{
	uint64		page = (uint64) RelationGetRelid(relation) << 32 | block;
	uint32		place = murmurhash64(page) % LA_JOIN_RECENT;
	bool		known = ask->recent[place] == page &&
		ask->rows - ask->recent_rows[place] <= 2 * ask->most_requests;

	if (!known)
	{
		ask->recent[place] = page;
		ask->recent_rows[place] = ask->rows;
	}
	return known;
}

static void
request(LaJoinAsk *ask, Relation relation, BlockNumber block)
{
	LaRange		range = {.first = block,.nblocks = 1,.wanted = 1};

	ask->idle_rows = 0;
	la_request_make(relation, &range, &ask->residency, &ask->node->counters);
	ask->useless |= ask->residency.resident;
}
