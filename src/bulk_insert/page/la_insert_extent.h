/*-------------------------------------------------------------------------
 *
 * la_insert_extent.h
 *	  pages by which a table was extended in bulk
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_EXTENT_H
#define LA_INSERT_EXTENT_H

#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "la_counters.h"

/*
 * Pages at the end of a table that one insert means to fill.  They are empty, others
 * can see them, and may take them.
 */
typedef struct LaInsertExtent
{
	Relation	table;
	LaCounters *counters;
	BufferAccessStrategy *strategy; /* made when it is wanted first */
	uint32		least_step;		/* pages by which to extend it at least */
	uint32		most_step;		/* and at most */
	uint32		wanted;			/* pages that are tried to be got now */
	BlockNumber next;			/* first page that is not filled */
	BlockNumber end;			/* one after the last */
	BlockNumber filled;			/* pages filled so far */
	bool		no_room;		/* did every extension fail, the last time? */
	bool		passed;			/* has core been told to go on behind pages of
								 * ours, since that extension? */
} LaInsertExtent;

extern void la_insert_extent_begin(LaInsertExtent *extent, Relation table,
								   LaCounters *counters,
								   BufferAccessStrategy *strategy);
extern void la_insert_extent_expect(LaInsertExtent *extent, uint32 pages,
									uint32 most);
extern bool la_insert_extent_ensure(LaInsertExtent *extent, Size row_length);
extern Buffer la_insert_extent_take(LaInsertExtent *extent);
extern Buffer la_insert_extent_single(LaInsertExtent *extent);
extern void la_insert_extent_pass(LaInsertExtent *extent);
extern void la_insert_extent_end(LaInsertExtent *extent);

#endif							/* LA_INSERT_EXTENT_H */
