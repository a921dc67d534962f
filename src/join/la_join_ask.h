/*-------------------------------------------------------------------------
 *
 * la_join_ask.h
 *	  which pages are asked for outer rows that were drawn ahead
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_ASK_H
#define LA_JOIN_ASK_H

#include "executor/tuptable.h"
#include "port/pg_bitutils.h"

#include "attach/la_registry.h"
#include "join/la_join_peek.h"
#include "join/la_join_target.h"
#include "join/la_join_trial.h"
#include "join/la_join_use.h"
#include "prefetch/la_range_planner.h"
#include "prefetch/la_residency.h"

/*
 * An outer row in the ring.  For each target, the index page that it waits for, or
 * InvalidBlockNumber.
 */
typedef struct LaJoinRow
{
	TupleTableSlot *slot;
	Size		bytes;			/* of its copy */
	LaJoinTarget *where[LA_JOIN_TARGETS];	/* or NULL: not looked up */
	uint32		matches;		/* pages that could be asked for */
	uint32		requests;		/* of table pages, for this row */
	uint32		wanted;			/* those, and such of rows before that it
								 * wants, too */
	uint32		ranges;			/* that these have begun */
	uint32		nwaits;
	BlockNumber waits[LA_JOIN_TARGETS];
	bool		counted[LA_JOIN_TARGETS];	/* was that request made for it? */
	bool		complete[LA_JOIN_TARGETS];	/* were all table pages asked for? */
	bool		asked[LA_JOIN_TARGETS]; /* was anything asked for it alone? */
	uint32		head;			/* of the ring, when it began to wait last */
	uint32		order;			/* waits that had begun before */
} LaJoinRow;

/* Positions count rows since the last rescan. */
typedef struct LaJoinRing
{
	LaJoinRow  *rows;
	uint32		mask;			/* their number is a power of two; less 1 */
	uint32		head;			/* the oldest row */
	uint32		tail;			/* behind the newest */
} LaJoinRing;

/* Pages that are asked for together with those of the next rows. */
typedef struct LaJoinRange
{
	LaRangePlanner planner;
	Relation	relation;
	BlockNumber last_block;		/* that was wanted */
	uint32		row;			/* position of the first one that wants them */
} LaJoinRange;

/* What a look-ahead takes while it has rows, beside those, as a rule, in bytes. */
#define LA_JOIN_ASK_BYTES (16 * 1024)

typedef struct LaJoinAsk
{
	LaNode	   *node;
	int			ntargets;
	LaJoinTarget *targets;
	LaJoinUse	uses[LA_JOIN_TARGETS];
	LaNode	   *scans[LA_JOIN_TARGETS]; /* that were told of a row, or NULL */
	MemoryContext scratch;		/* of comparison functions */

	uint32		most_requests;
	uint32		request_limit;	/* for the moment, of table pages and of index
								 * pages */
	uint32		table_requests; /* ranges, for rows in the ring */
	uint32		index_requests;
	uint32		first_waiting;	/* position: no row before it waits */
	uint32		order;			/* waits that have begun */
	uint32		idle_rows;		/* since something was asked for */
	LaJoinRange index_range;
	LaJoinRange table_range;
	LaJoinTrial trial;
	LaResidency residency;		/* of all targets' pages */
	bool		asked;			/* for anything, since it woke */
	uint32		in_vain;		/* times it woke and did not, one after the
								 * other */
	uint32		skips;			/* reads that do not wake it */

	/* Of a join that looks for one match: pages to ask for of each row. */
	bool		one_match;
	uint32		matches;
	uint32		most_reads;		/* of a row, since that was changed */
	uint32		fewer_rows;		/* that needed less, since then */
	int64		exceeded;		/* by the row before: its pages, or 0 */
	int64		reads;			/* of its tables, when the oldest row was
								 * handed out */

	uint32		requests;
	struct LaJoinRecent *recent;	/* pages that were asked for */
	uint32		rows;			/* drawn in all */
} LaJoinAsk;

static inline LaJoinRow *
la_join_row(const LaJoinRing *ring, uint32 position)
{
	return &ring->rows[position & ring->mask];
}

/*
 * Memory of a ring and of slots for all of its rows, in bytes.
 */
static inline Size
la_join_ring_bytes(const LaJoinRing *ring, TupleDesc descriptor)
{
	Size		columns = descriptor->natts * (sizeof(Datum) + sizeof(bool));

	return (ring->mask + 1) *
		(sizeof(LaJoinRow) + sizeof(HeapTupleTableSlot) + columns);
}

/*
 * Of how many rows a ring is: as many as that, or fewer where slots for all of them would take too
 * much of what a statement has.
 */
static inline uint32
la_join_ring_rows(LaJoinRing *ring, uint32 most_rows, TupleDesc descriptor)
{
	ring->mask = pg_nextpower2_32(most_rows) - 1;
	while (ring->mask > 0 &&
		   la_join_ring_bytes(ring, descriptor) > LA_STATEMENT_BYTES / 4)
		ring->mask >>= 1;
	return Min(most_rows, ring->mask + 1);
}

extern bool la_join_ask_init(LaJoinAsk *ask, const LaJoinOuter *outer,
							 LaNode *node);
extern void la_join_ask_open(LaJoinAsk *ask, MemoryContext context);
extern bool la_join_ask_may_wake(LaJoinAsk *ask);
extern void la_join_ask_start(LaJoinAsk *ask);
extern void la_join_ask_stop(LaJoinAsk *ask);
extern void la_join_ask_reset(LaJoinAsk *ask);
extern void la_join_ask_grow(LaJoinAsk *ask);
extern bool la_join_ask_is_over(LaJoinAsk *ask);
extern bool la_join_ask_is_full(const LaJoinAsk *ask);
extern void la_join_ask_for_row(LaJoinAsk *ask, const LaJoinRing *ring,
								LaJoinRow *row);
extern void la_join_ask_waiting(LaJoinAsk *ask, const LaJoinRing *ring,
								bool at_end);
extern void la_join_ask_hand_out(LaJoinAsk *ask, const LaJoinRow *row);
extern void la_join_ask_retire(LaJoinAsk *ask, const LaJoinRow *row);

#endif							/* LA_JOIN_ASK_H */
