/*-------------------------------------------------------------------------
 *
 * la_misses.h
 *	  do the pages that a query has to read come from a device?
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_MISSES_H
#define LA_MISSES_H

#include "nodes/execnodes.h"
#include "portability/instr_time.h"

/* Of rows for which a sleeping node of a running query had pages read. */
typedef struct LaMisses
{
	uint32		rows;
	uint32		next_look;		/* the number of rows at which it is looked
								 * next */
	int64		device_pages;	/* of this process, at the first look */
	int64		reads;			/* pages that were not, then */
	int64		hits;			/* pages found in shared buffers, then */
	instr_time	began;			/* then, without the time between fetches */
	bool		cold;			/* they do, or may */
} LaMisses;

extern bool la_misses_are_cold(LaMisses *misses, PlanState *planstate);
extern void la_misses_turn(LaMisses *misses);

#endif							/* LA_MISSES_H */
