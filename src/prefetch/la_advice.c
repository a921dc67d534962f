/*-------------------------------------------------------------------------
 *
 * la_advice.c
 *	  tells the kernel which pages of a relation will be read
 *
 * The pages are then read by core, each on its turn, out of the kernel's
 * cache.  Pages in shared buffers are not asked for, near ones are asked for
 * together (la_range_planner.c), and nothing is asked for while the pages turn
 * out to be in memory (la_residency.c).  How long a gap may be is learned from the
 * device's profile (la_gap_choice.c).  Runs of adjacent pages are left to the kernel's
 * read-ahead, and so are index scans with a ring that pass over the table again and again
 * (la_ring_advice.c).
 *
 * The distance is controlled like that of a read stream (mirrors
 * read_stream_look_ahead() in read_stream.c): it starts at 1, doubles with each
 * page used while pages ahead are not in shared buffers, and goes by one
 * towards LEAST_DISTANCE when as many pages as the distance were used without
 * that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "prefetch/la_advice.h"
#include "prefetch/la_prefetch_settings.h"
#include "prefetch/la_request.h"

/* Blocks after which the gap limit is chosen anew: arbitrary. */
#define BLOCKS_PER_CHOICE 128

/*
 * Pages to look ahead while all are in shared buffers.  With fewer, a page that is not
 * there would be found on its turn, and nothing gained where that is one in fifty.
 * Arbitrary.
 */
#define LEAST_DISTANCE 8

/*
 * Adjacent pages after which a scan counts as sequential: arbitrary, several of
 * the longest requests.
 */
#define SEQUENTIAL_RUN 64

/*
 * Pages not in shared buffers after which it is looked whether they are passes
 * over the table (see note_pass): of these, how many come behind pages that
 * were read, and how many behind the one before.  Arbitrary, but that of pages in
 * random order half ascend, give or take two.
 */
#define PAGES_PER_PASS_LOOK 32
#define FOLLOWING_PAGES 28
#define ASCENDING_PAGES 24

/*
 * Prepares advice for a relation.
 */
LaAdvice *
la_advice_create(Relation relation, MemoryContext context,
				 LaCounters *counters)
{
	LaAdvice   *advice = MemoryContextAllocZero(context, sizeof(LaAdvice));

	advice->relation = relation;
	advice->counters = counters;
	advice->context = context;
	la_residency_init(&advice->residency, relation);
	return advice;
}

void
la_advice_free(LaAdvice *advice)
{
	if (advice->in_flight != NULL)
		pfree(advice->in_flight);
	pfree(advice);
}

/*
 * A scan (re)starts, with at most max_distance requests in flight.  What is
 * known about residency is kept: a nested loop restarts its inner scan with
 * every row, long before it would be found out again.
 */
void
la_advice_start(LaAdvice *advice, uint32 max_distance)
{
	if (max_distance >= advice->in_flight_size)
	{
		if (advice->in_flight != NULL)
			pfree(advice->in_flight);
		advice->in_flight = NULL;

		/* One addition can exceed the distance by one. */
		advice->in_flight_size = max_distance + 1;
		advice->in_flight = MemoryContextAlloc(advice->context,
											   advice->in_flight_size * sizeof(uint64));
	}
	advice->distance = 1;
	advice->max_distance = max_distance;
	advice->hits = 0;
	advice->missed = false;
	advice->last_block = InvalidBlockNumber;
	advice->run_length = 0;
	advice->looked_at = 0;
	advice->following = 0;
	advice->ascending = 0;
	advice->last_missed = 0;
	advice->kernel_leads = false;
	advice->profile = NULL;
	if (la_gap_limit < 0 && !RelationUsesLocalBuffers(advice->relation))
		advice->profile = la_profile_for_tablespace(advice->relation->rd_locator.spcOid);
	memset(&advice->gaps, 0, sizeof(advice->gaps));
	if (RelationUsesLocalBuffers(advice->relation))
		la_range_planner_start(&advice->planner, 0, 1);
	else
		la_range_planner_start(&advice->planner,
							   la_gap_limit < 0 ? LA_USUAL_GAP_LIMIT : la_gap_limit,
							   LA_MOST_REQUEST_BLOCKS);
	la_advice_resume(advice);
	for (int i = 0; i < LA_RECENT_BLOCKS; i++)
		advice->recent[i] = InvalidBlockNumber;
}

/*
 * Positions begin anew, within the same scan.
 */
void
la_advice_resume(LaAdvice *advice)
{
	advice->in_flight_first = 0;
	advice->in_flight_count = 0;
	advice->planner.open.nblocks = 0;
}

/*
 * Adapts the distance to what has been found since the last page was used.
 */
static void
adapt_distance(LaAdvice *advice)
{
	if (advice->missed)
	{
		advice->distance = Min(advice->distance * 2, advice->max_distance);
		advice->missed = false;
		advice->hits = 0;
	}
	else if (++advice->hits >= advice->distance)
	{
		if (advice->distance > LEAST_DISTANCE)
			advice->distance--;
		else if (advice->distance < Min(LEAST_DISTANCE, advice->max_distance))
			advice->distance++;
		advice->hits = 0;
	}
}

/*
 * The page at a position is about to be used.  Returns false when nothing
 * shall be asked for at present.
 */
bool
la_advice_turn(LaAdvice *advice, uint64 position)
{
	while (advice->in_flight_count > 0 &&
		   advice->in_flight[advice->in_flight_first] <= position)
	{
		advice->in_flight_first = (advice->in_flight_first + 1) % advice->in_flight_size;
		advice->in_flight_count--;
	}
	if (advice->residency.resident)
	{
		la_residency_not_asked(&advice->residency);
		return false;
	}
	adapt_distance(advice);
	return true;
}

/*
 * Are fewer requests in flight than there should be?
 */
bool
la_advice_wants_more(const LaAdvice *advice)
{
	return advice->in_flight_count < advice->distance;
}

/*
 * Adapts the gap limit to the device and to how dense the pages lie.
 */
static void
learn_gap(LaAdvice *advice, BlockNumber block)
{
	la_gap_count(&advice->gaps, (int64) block - advice->last_block);
	if (advice->gaps.blocks < BLOCKS_PER_CHOICE)
		return;
	advice->planner.gap_limit = la_gap_choose(&advice->gaps, LA_MOST_REQUEST_BLOCKS,
											  advice->profile->iops,
											  advice->profile->bandwidth_mb * 1e6 / BLCKSZ);
	memset(&advice->gaps, 0, sizeof(advice->gaps));
}

/*
 * Was this page among the last ones?  Remembers it.  A few pages that collide
 * are asked for twice, which costs little.
 */
static bool
recently_asked(LaAdvice *advice, BlockNumber block)
{
	BlockNumber *slot = &advice->recent[murmurhash32(block) % LA_RECENT_BLOCKS];

	if (*slot == block)
		return true;
	*slot = block;
	return false;
}

/*
 * Is a page in shared buffers, or on its way?
 */
static bool
was_before(LaAdvice *advice, BlockNumber block)
{
	return advice->recent[murmurhash32(block) % LA_RECENT_BLOCKS] == block ||
		!la_request_is_needed(advice->relation, block);
}

/*
 * Notes whether a page that is to be asked for lies behind the one before it, and
 * right behind two that were read, or asked for, not long ago.  Where that is so
 * again and again, the scan passes over the table in ascending steps, time after
 * time.  The kernel, reading such a page by itself, finds the pages before it in
 * its cache, and reads many more at once (try_context_readahead() in
 * mm/readahead.c), where advice is taken literally, page by page.  So there it
 * does better alone.
 */
static void
note_pass(LaAdvice *advice, BlockNumber block)
{
	if (block > advice->last_missed)
		advice->ascending++;
	advice->last_missed = block;
	if (block >= 2 && was_before(advice, block - 1) && was_before(advice, block - 2))
		advice->following++;
	if (++advice->looked_at < PAGES_PER_PASS_LOOK)
		return;
	advice->kernel_leads = advice->following >= FOLLOWING_PAGES &&
		advice->ascending >= ASCENDING_PAGES;
	advice->looked_at = 0;
	advice->following = 0;
	advice->ascending = 0;
}

/*
 * Does this page go on a run of adjacent pages in ascending order, which the
 * kernel notices by itself and reads in requests larger than ours?
 */
static bool
in_sequence(LaAdvice *advice, BlockNumber block)
{
	if (block == advice->last_block + 1)
		advice->run_length++;
	else
		advice->run_length = 0;
	advice->last_block = block;
	return advice->run_length >= SEQUENTIAL_RUN;
}

static void
push_in_flight(LaAdvice *advice, uint64 position)
{
	Assert(advice->in_flight_count < advice->in_flight_size);
	advice->in_flight[(advice->in_flight_first + advice->in_flight_count) %
					  advice->in_flight_size] = position;
	advice->in_flight_count++;
}

/*
 * Asks the kernel for a range whose first page is used at a position.
 */
static void
ask_range(LaAdvice *advice, const LaRange *range, uint64 position)
{
	push_in_flight(advice, position);
	la_request_make(advice->relation, range, &advice->residency,
					advice->counters);
}

/*
 * The page used at a position, later than any before, will be this one.
 */
void
la_advice_add(LaAdvice *advice, BlockNumber block, uint64 position)
{
	bool		sequential;
	LaRange		range;

	if (advice->profile != NULL && advice->last_block != InvalidBlockNumber)
		learn_gap(advice, block);
	sequential = in_sequence(advice, block);

	if (sequential || !la_request_is_needed(advice->relation, block) ||
		recently_asked(advice, block))
	{
		/* Costs a place in the distance, unless among pages asked for. */
		if (la_range_planner_is_near(&advice->planner, block))
			return;
		la_advice_flush(advice);
		push_in_flight(advice, position);
		return;
	}

	advice->missed = true;
	if (advice->notes_passes)
		note_pass(advice, block);
	if (la_range_planner_add(&advice->planner, block, &range))
		ask_range(advice, &range, advice->open_position);
	if (advice->planner.open.wanted == 1)
		advice->open_position = position;
}

/*
 * Asks for the open range too: nothing will be added for the moment.
 */
void
la_advice_flush(LaAdvice *advice)
{
	LaRange		range;

	if (la_range_planner_finish(&advice->planner, &range))
		ask_range(advice, &range, advice->open_position);
}
