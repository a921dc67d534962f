/*-------------------------------------------------------------------------
 *
 * la_take_over.h
 *	  takes the place of core's stream in the middle of a bitmap
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_TAKE_OVER_H
#define LA_TAKE_OVER_H

#include "access/relscan.h"
#include "nodes/tidbitmap.h"

typedef struct LaTakeOver
{
	TBMIterator iterator;		/* of the bitmap that is scanned */
	TIDBitmap  *nothing;		/* the iterator of this one is in its place;
								 * NULL when there is no take-over under way */
} LaTakeOver;

extern void la_take_over_begin(LaTakeOver *take_over, TableScanDesc scan,
							   MemoryContext context);
extern void la_take_over_finish(LaTakeOver *take_over, TableScanDesc scan,
								bool same_bitmap);

static inline bool
la_take_over_is_under_way(const LaTakeOver *take_over)
{
	return take_over->nothing != NULL;
}

#endif							/* LA_TAKE_OVER_H */
