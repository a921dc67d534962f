/*-------------------------------------------------------------------------
 *
 * la_join_ask.c
 *	  which pages are asked for outer rows that were drawn ahead
 *
 * Two stages: a row's key is looked up in the index as far as pages are in
 * shared buffers (la_join_peek.c).  Where one is not, the kernel is asked for
 * it, and the row waits.  When it has had time to come, which is when
 * NEWER_WAITS others have been asked for since, or half the way to the row's
 * turn has passed, the look goes on there, a few rows later if it is far from
 * its turn.  At a leaf, the kernel is asked for the table's pages, of an
 * index-only scan for those that are not all-visible.
 *
 * Both stages have a budget of their own, or the first, which has more to ask
 * for while the index is cold, would leave nothing to the second, which is
 * what the first is for.  The second may go beyond its own, up to twice as
 * much, for rows that have waited.
 *
 * Pages that are near each other are asked for together (la_range_planner.c):
 * rows in the order of the index or the table find it in order, which the
 * kernel reads in long requests if it is not told of single pages.  A range is
 * open until a page is wanted that is far away, and no longer than its first
 * row is in the newest quarter of the ring, for pages of an index, or in the
 * newest three, for those of a table: rows wait for the former half their way.
 * The budgets count ranges.
 *
 * A join that wants one match per row, as a semi join or one over a LIMIT, asks of each
 * row for
 *
 * - one page at first;
 * - twice as many as before, after a row that had more pages read than were asked for;
 * - as many as two such rows, one after the other, had read at least, if that is more;
 * - as many as any row had read, after FEWER_ROWS rows that had fewer read than were
 *   asked for.
 *
 * A target to which no row has come yet, or most rows do not, is not asked for until they do.
 *
 * Reads PgStat_TableStatus of pgstat.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

#include "join/la_join_ask.h"
#include "join/la_join_end.h"
#include "prefetch/la_hits.h"
#include "prefetch/la_prefetch_settings.h"
#include "prefetch/la_request.h"
#include "prefetch/la_wake.h"

/* Newer requests after which an index page should have come: arbitrary. */
#define NEWER_WAITS 16

/*
 * Rows, from the first that waits, of which is asked with each row that is
 * drawn whether they have waited long enough: those behind have begun later,
 * if none of these has begun anew in a lower page.  So all are asked with one
 * row in so many.  Arbitrary.
 */
#define WAITING_ROWS 32
#define ROWS_PER_LOOK 16

/*
 * Reads that do not wake a join which woke in vain, twice as many the next time,
 * so many times: arbitrary.
 */
#define FEWEST_SKIPS 64
#define MOST_IN_VAIN 6

/* Rows for which nothing had to be asked, after which the join sleeps: arbitrary. */
#define SLEEP_AFTER 256

/*
 * Rows that need fewer pages than are asked for, after which no more are than
 * one of them needed: arbitrary.
 */
#define FEWER_ROWS 8

/*
 * Requests of which it is looked whether one comes from a device: arbitrary.
 * Which one is by chance, because rows may ask for pages of the index and of
 * the table in turn.
 */
#define REQUESTS_PER_LOOK 3

#define RECENT_PAGES 512		/* remembered as asked for: a power of two */

typedef struct LaJoinRecent
{
	uint64		page;
	uint32		rows;			/* for how many rows before */
} LaJoinRecent;

/*
 * Prepares to ask for outer rows.  False when nothing could be asked for.
 * Allocates in the current memory context.
 */
bool
la_join_ask_init(LaJoinAsk *ask, const LaJoinOuter *outer, LaNode *node)
{
	ask->targets = palloc_array(LaJoinTarget, LA_JOIN_TARGETS);
	ask->ntargets = la_join_targets_find(outer, ask->targets);
	if (ask->ntargets == 0)
		return false;
	ask->node = node;
	la_residency_init(&ask->residency, ask->targets[0].table);
	ask->most_requests = Max(la_request_limit(ask->targets[0].table), 1);
	ask->one_match = la_join_stops_early(outer->node);
	for (int target = 0; target < ask->ntargets; target++)
		ask->one_match |= ask->targets[target].limited;
	ask->matches = 1;
	return true;
}

/* Rows will be drawn: takes memory from this context until that goes. */
void
la_join_ask_open(LaJoinAsk *ask, MemoryContext context)
{
	ask->scratch = AllocSetContextCreate(context, "pg_lookahead join keys",
										 ALLOCSET_SMALL_SIZES);
	ask->recent = MemoryContextAllocZero(context, RECENT_PAGES * sizeof(LaJoinRecent));
}

/*
 * A page was read that had not been asked for.  Did it come from a device, or may
 * have?  And was there anything to ask for when others were?  Pages that no target is about are
 * read for the inner side, too.
 */
bool
la_join_ask_may_wake(LaJoinAsk *ask)
{
	if (!la_join_trial_asks(&ask->trial))
		return false;
	if (ask->skips > 0 && (ask->trial.doubt == LA_JOIN_NO_DOUBT || ask->trial.looking) &&
		!la_wake_forced())
	{
		ask->skips--;
		return false;
	}
	return !ask->residency.resident || la_wake_forced() || la_residency_read(&ask->residency);
}

/*
 * Begins to ask, with few requests.
 */
void
la_join_ask_start(LaJoinAsk *ask)
{
	uint32		gap_limit = la_gap_limit < 0 ? LA_USUAL_GAP_LIMIT : la_gap_limit;

	la_residency_resume(&ask->residency);
	la_range_planner_start(&ask->table_range.planner, gap_limit,
						   LA_MOST_REQUEST_BLOCKS);
	la_range_planner_start(&ask->index_range.planner, gap_limit,
						   LA_MOST_REQUEST_BLOCKS);
	la_join_use_begin(ask->uses, ask->targets, ask->ntargets);
	ask->asked = false;
	ask->idle_rows = 0;
	ask->request_limit = la_wake_forced() ? ask->most_requests : 1;
}

/*
 * The join goes to sleep.
 */
void
la_join_ask_stop(LaJoinAsk *ask)
{
	ask->skips = 0;
	if (ask->asked)
		ask->in_vain = 0;
	else
	{
		ask->skips = FEWEST_SKIPS << ask->in_vain;
		ask->in_vain = Min(ask->in_vain + 1, MOST_IN_VAIN);
	}
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
	ask->table_range.planner.open.nblocks = 0;
	ask->index_range.planner.open.nblocks = 0;
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
 * Do rows come to any target?  If not, the join wakes the less often the more often that was so.
 */
static bool
has_use(LaJoinAsk *ask)
{
	for (int target = 0; target < ask->ntargets; target++)
	{
		if (!ask->uses[target].in_vain)
			return true;
	}
	ask->asked = false;
	return false;
}

/*
 * Is nothing to be asked for any more: because nothing had to be for
 * SLEEP_AFTER rows, or what was asked for was in memory, comes as soon by
 * itself, or is not wanted; or because that was switched off?
 */
bool
la_join_ask_is_over(LaJoinAsk *ask)
{
	return (ask->residency.resident && !la_wake_forced()) ||
		!has_use(ask) ||
		ask->idle_rows > SLEEP_AFTER ||
		!la_join_trial_asks(&ask->trial) ||
		!la_feature_enabled(ask->node->feature);
}

/*
 * What a row was looked up in; of partitions that is not known where it was not.
 */
static const LaJoinTarget *
target_of(const LaJoinAsk *ask, const LaJoinRow *row, int target)
{
	return row->where[target] != NULL ? row->where[target] : &ask->targets[target];
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
 * Was this page asked for, for one of the rows in the ring?  Remembers it.
 */
static bool
recently_asked(LaJoinAsk *ask, Relation relation, BlockNumber block)
{
	uint64		page = (uint64) RelationGetRelid(relation) << 32 | block;
	LaJoinRecent *recent = &ask->recent[murmurhash64(page) % RECENT_PAGES];

	if (recent->page == page && ask->rows - recent->rows <= 4 * ask->most_requests)
		return true;
	recent->page = page;
	recent->rows = ask->rows;
	return false;
}

/*
 * Of one request in REQUESTS_PER_LOOK it is counted what has to come from a
 * device, and it stands for the others.  Where nothing is counted, a trial has
 * to tell.
 */
static void
request_range(LaJoinAsk *ask, Relation relation, const LaRange *range)
{
	LaResidency *residency = &ask->residency;
	LaCounters *counters = &ask->node->counters;

	ask->asked = true;
	if (murmurhash32(ask->requests++) % REQUESTS_PER_LOOK != 0)
		la_request_make(relation, range, residency, counters);
	else
		ask->trial.device_pages += REQUESTS_PER_LOOK *
			la_request_make_counted(relation, range, residency, counters);
}

static void
ask_open_range(LaJoinAsk *ask, LaJoinRange *open)
{
	LaRange		finished;

	if (la_range_planner_finish(&open->planner, &finished))
		request_range(ask, open->relation, &finished);
}

/*
 * Asks for a page, together with near ones that other rows want.  Returns whether that is another
 * request.
 */
static bool
request_soon(LaJoinAsk *ask, LaJoinRange *open, uint32 position,
			 Relation relation, BlockNumber block)
{
	LaRange		finished;
	bool		is_new;

	if (open->relation != relation)
	{
		ask_open_range(ask, open);
		open->last_block = InvalidBlockNumber;
	}
	open->relation = relation;
	ask->idle_rows = 0;
	la_join_trial_wanted(&ask->trial, open->last_block, block, ask->rows);
	open->last_block = block;
	if (la_range_planner_add(&open->planner, block, &finished))
		request_range(ask, relation, &finished);
	is_new = open->planner.open.nblocks == 1;
	if (is_new || (int32) (position - open->row) < 0)
		open->row = position;
	return is_new;
}

static void
begin_wait(LaJoinAsk *ask, const LaJoinRing *ring, uint32 position, int target,
		   BlockNumber block)
{
	LaJoinRow  *row = la_join_row(ring, position);
	Relation	index = row->where[target]->index;

	row->waits[target] = block;
	row->nwaits++;
	row->head = ring->head;
	row->order = ask->order;
	if (recently_asked(ask, index, block) ||
		!request_soon(ask, &ask->index_range, position, index, block))
		return;
	row->counted[target] = true;
	ask->index_requests++;
	ask->order++;
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
ask_for_table(LaJoinAsk *ask, const LaJoinRing *ring, uint32 position,
			  const LaJoinTarget *target, const LaPeek *peek)
{
	LaJoinRow  *row = la_join_row(ring, position);
	Buffer		map_buffer = InvalidBuffer;
	LaHits		hits = la_hits_begin(target->table);

	for (int i = 0; i < peek->nblocks; i++)
	{
		BlockNumber block = peek->blocks[i];

		if (target->index_only &&
			VM_ALL_VISIBLE(target->table, block, &map_buffer))
			continue;
		ask->node->counters.prefetched++;
		if (!la_request_is_needed(target->table, block))
			continue;
		row->wanted++;
		if (recently_asked(ask, target->table, block))
			continue;
		row->requests++;
		if (request_soon(ask, &ask->table_range, position, target->table, block))
		{
			row->ranges++;
			ask->table_requests++;
		}
	}
	if (BufferIsValid(map_buffer))
		ReleaseBuffer(map_buffer);
	la_hits_forget(target->table, hits);
}

/*
 * Looks a row up in an index, from the root or where it had to wait.
 */
static void
look_up(LaJoinAsk *ask, const LaJoinRing *ring, uint32 position, int target)
{
	LaJoinRow  *row = la_join_row(ring, position);
	LaJoinTarget *where = row->where[target];
	BlockNumber from = row->waits[target];
	uint32		requests = row->requests;
	MemoryContext old;
	LaPeek		peek;

	end_wait(ask, row, target);
	if (where == NULL || !la_join_target_fill(where, row->slot))
		return;
	old = MemoryContextSwitchTo(ask->scratch);
	la_join_peek(where->index, &where->search, from,
				 ask->one_match ? ask->matches : LA_PEEK_BLOCKS, &peek);
	MemoryContextSwitchTo(old);
	MemoryContextReset(ask->scratch);

	row->complete[target] = peek.complete;
	if (peek.missing != InvalidBlockNumber)
		begin_wait(ask, ring, position, target, peek.missing);
	ask_for_table(ask, ring, position, where, &peek);
	row->asked[target] |= row->counted[target] || row->requests != requests;
}

/*
 * Looks a new row up, which will be the last of the ring.
 */
void
la_join_ask_for_row(LaJoinAsk *ask, const LaJoinRing *ring, LaJoinRow *row)
{
	row->matches = ask->matches;
	row->requests = row->wanted = 0;
	row->ranges = 0;
	row->nwaits = 0;
	ask->rows++;
	ask->idle_rows++;
	for (int target = 0; target < ask->ntargets; target++)
	{
		row->waits[target] = InvalidBlockNumber;
		row->counted[target] = false;
		row->complete[target] = false;
		row->asked[target] = false;
		row->where[target] = ask->uses[target].in_vain ? NULL :
			la_join_target_of_row(&ask->targets[target], row->slot);
		look_up(ask, ring, ring->tail, target);
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
 * Asks for a range whose first row is among the oldest quarters of the ring.
 * A page of a row that is done with has been read.
 */
static void
ask_old_range(LaJoinAsk *ask, LaJoinRange *open, const LaJoinRing *ring,
			  uint32 quarters)
{
	int32		ahead = (int32) (open->row - ring->head);

	if (ahead < 0 && open->planner.open.nblocks == 1)
		open->planner.open.nblocks = 0;
	else if (ahead * 4 < (int32) ((ring->tail - ring->head) * quarters))
		ask_open_range(ask, open);
}

/*
 * Goes on with rows that have waited long enough, and asks for what cannot be put off.
 */
void
la_join_ask_waiting(LaJoinAsk *ask, const LaJoinRing *ring, bool at_end)
{
	bool		all = at_end || ask->rows % ROWS_PER_LOOK == 0;

	if ((int32) (ask->first_waiting - ring->head) < 0)
		ask->first_waiting = ring->head;
	ask_old_range(ask, &ask->index_range, ring, at_end ? 4 : 3);
	for (uint32 position = ask->first_waiting;
		 position != ring->tail && (all || position - ask->first_waiting < WAITING_ROWS);
		 position++)
	{
		LaJoinRow  *row = la_join_row(ring, position);
		bool		ready = row->nwaits > 0 && (at_end || is_ready(ask, ring, position));

		if (ask->table_requests >= 2 * ask->request_limit)
			break;
		if (ready)
			CHECK_FOR_INTERRUPTS(); /* at the end many pages are read */
		for (int target = 0; ready && target < ask->ntargets; target++)
		{
			if (row->waits[target] != InvalidBlockNumber)
				look_up(ask, ring, position, target);
		}
		if (row->nwaits == 0 && position == ask->first_waiting)
			ask->first_waiting++;
	}
	ask_old_range(ask, &ask->table_range, ring, at_end ? 4 : 1);
}

/*
 * Pages that were read so far of the tables that a row is looked up in, as far as PostgreSQL
 * counts them.
 */
static int64
table_reads(const LaJoinAsk *ask, const LaJoinRow *row)
{
	int64		reads = 0;

	for (int target = 0; target < ask->ntargets; target++)
	{
		Relation	table;

		if (row->where[target] == NULL)
			continue;
		table = row->where[target]->table;
		if (target > 0 && row->where[target - 1] != NULL &&
			row->where[target - 1]->table == table)
			continue;
		if (pgstat_should_count_relation(table))
			reads += table->pgstat_info->counts.blocks_fetched -
				table->pgstat_info->counts.blocks_hit;
	}
	return reads;
}

/*
 * The oldest row is handed out; or a row is, of which nothing is known, if it is NULL.  A
 * scan whose pages were all asked for need not look ahead itself, which would ask again.
 */
void
la_join_ask_hand_out(LaJoinAsk *ask, const LaJoinRow *row)
{
	ask->reads = row != NULL && ask->one_match ? table_reads(ask, row) : 0;
	for (int target = 0; target < ask->ntargets; target++)
	{
		if (ask->scans[target] != NULL)
			ask->scans[target]->asked_above = false;
		ask->scans[target] = NULL;
		if (row != NULL && row->complete[target])
			ask->scans[target] = row->where[target]->node;
		if (row != NULL)
			la_join_use_hand_out(&ask->uses[target], target_of(ask, row, target));
		if (ask->scans[target] != NULL)
			ask->scans[target]->asked_above = true;
	}
}

/*
 * So many pages were read for a row that was looked up with the number of
 * pages that is valid still: rows in the ring that have another one tell
 * nothing.
 */
static void
learn_matches(LaJoinAsk *ask, const LaJoinRow *row, int64 reads)
{
	int64		exceeded = ask->exceeded;

	ask->most_reads = Max(ask->most_reads, reads);
	ask->exceeded = reads > row->wanted ? reads : 0;
	if (reads > row->wanted)
		ask->matches = Min(Max(ask->matches * 2, Min(reads, exceeded)), LA_PEEK_BLOCKS);
	else if (reads < row->requests && ++ask->fewer_rows >= FEWER_ROWS)
		ask->matches = Max(Min(ask->most_reads, ask->matches), 1);
	else
		return;
	ask->most_reads = ask->fewer_rows = 0;
}

/*
 * A row that was handed out is done with.
 */
void
la_join_ask_retire(LaJoinAsk *ask, const LaJoinRow *row)
{
	ask->table_requests -= row->ranges;
	for (int target = 0; target < ask->ntargets; target++)
	{
		if (row->counted[target])
			ask->index_requests--;
		if (row->asked[target] || ask->uses[target].in_vain)
			la_join_use_retire(&ask->uses[target], target_of(ask, row, target));
	}
	if (ask->one_match && row->nwaits == 0 && row->matches == ask->matches)
		learn_matches(ask, row, table_reads(ask, row) - ask->reads);
}
