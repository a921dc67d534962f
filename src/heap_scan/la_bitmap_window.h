/*-------------------------------------------------------------------------
 *
 * la_bitmap_window.h
 *	  the next blocks of a bitmap, for which advice is given
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BITMAP_WINDOW_H
#define LA_BITMAP_WINDOW_H

#include "access/heapam.h"
#include "nodes/tidbitmap.h"

#include "attach/la_registry.h"
#include "prefetch/la_advice.h"

typedef struct LaBitmapWindow
{
	HeapScanDesc heap;			/* has the bitmap's iterator */
	LaQuery    *query;
	LaAdvice   *advice;
	bool		parallel;
	TBMIterateResult *blocks;	/* a ring; NULL unless needed */
	uint64		taken;			/* blocks of this bitmap, into the window */
	uint64		given;			/* of these, to the stream */
	bool		exhausted;		/* the iterator has no more */
} LaBitmapWindow;

extern void la_bitmap_window_start(LaBitmapWindow *window);
extern bool la_bitmap_window_affordable(const LaBitmapWindow *window);
extern void la_bitmap_window_look_ahead(LaBitmapWindow *window);
extern bool la_bitmap_window_next(LaBitmapWindow *window,
								  TBMIterateResult *result);

#endif							/* LA_BITMAP_WINDOW_H */
