/*-------------------------------------------------------------------------
 *
 * la_advice.h
 *	  tells the kernel which pages of a relation will be read
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_ADVICE_H
#define LA_ADVICE_H

#include "storage/block.h"
#include "utils/relcache.h"

#include "la_counters.h"
#include "device/la_profile.h"
#include "prefetch/la_gap_choice.h"
#include "prefetch/la_range_planner.h"
#include "prefetch/la_residency.h"

/* Pages remembered as asked for: a power of two. */
#define LA_RECENT_BLOCKS 256

/*
 * The advice of one scan.  A request is one range of blocks; it is in flight
 * from when the kernel is told until its first page is used.  So that hits do
 * not make the scan run ahead without bound, a page found in shared buffers
 * counts as one too.  Positions number what the scan will use, in its order.
 */
typedef struct LaAdvice
{
	Relation	relation;
	LaCounters *counters;

	uint32		distance;		/* requests to have in flight now */
	uint32		max_distance;
	uint32		hits;			/* pages used since the kernel was last asked */
	bool		missed;			/* asked since la_advice_turn() */
	BlockNumber last_block;		/* added last */
	uint32		run_length;		/* adjacent pages before it */
	bool		notes_passes;	/* shall what follows be found out? */
	uint32		looked_at;		/* pages since it was last looked */
	BlockNumber last_missed;	/* the one before */
	uint32		following;		/* of these, right behind others */
	uint32		ascending;		/* of these, behind the one before */
	bool		kernel_leads;	/* the kernel reads ahead better, alone */

	LaRangePlanner planner;
	const LaDeviceProfile *profile; /* to choose the gap limit by, or NULL */
	LaGapCounts gaps;			/* since the last choice */
	uint64		open_position;	/* of the first page of the open range */
	MemoryContext context;
	uint64	   *in_flight;		/* first positions, oldest first: a ring */
	uint32		in_flight_size;
	uint32		in_flight_first;
	uint32		in_flight_count;

	BlockNumber recent[LA_RECENT_BLOCKS];
	LaResidency residency;
} LaAdvice;

extern LaAdvice *la_advice_create(Relation relation, MemoryContext context,
								  LaCounters *counters);
extern void la_advice_free(LaAdvice *advice);
extern void la_advice_start(LaAdvice *advice, uint32 max_distance);
extern void la_advice_resume(LaAdvice *advice);
extern bool la_advice_turn(LaAdvice *advice, uint64 position);
extern bool la_advice_wants_more(const LaAdvice *advice);
extern void la_advice_add(LaAdvice *advice, BlockNumber block,
						  uint64 position);
extern void la_advice_flush(LaAdvice *advice);

#endif							/* LA_ADVICE_H */
