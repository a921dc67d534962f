/*-------------------------------------------------------------------------
 *
 * la_stream_switch.h
 *	  changes the read stream of a bitmap scan in mid-scan
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_STREAM_SWITCH_H
#define LA_STREAM_SWITCH_H

#include "access/heapam.h"
#include "access/relscan.h"
#include "nodes/tidbitmap.h"
#include "storage/block.h"
#include "storage/read_stream.h"

/* How dense the blocks of a bitmap lie. */
typedef struct LaDensity
{
	uint32		counted;		/* blocks since the last look */
	uint32		adjacent;		/* of these, right behind another one */
	BlockNumber last_block;
	bool		is_dense;		/* did most of those counted last follow on
								 * another one? */
} LaDensity;

typedef enum LaStreamKind
{
	LA_STREAM_ADVISED,
	LA_STREAM_CORE,
} LaStreamKind;

/* Both streams live as long as the query. */
typedef struct LaStreamSwitch
{
	HeapScanDesc heap;			/* whose stream is changed */
	MemoryContext context;		/* of the query */
	ReadStreamBlockNumberCB callback;	/* of both streams */
	void	   *callback_data;
	ReadStream *streams[LA_STREAM_CORE + 1];	/* NULL until needed */
	LaStreamKind kind;			/* of the one in use */
	bool		changing;		/* it is being used up */
	LaDensity	density;
} LaStreamSwitch;

extern void la_stream_switch_init(LaStreamSwitch *streams, HeapScanDesc heap,
								  MemoryContext context,
								  ReadStreamBlockNumberCB callback,
								  void *callback_data);
extern void la_stream_switch_begin(LaStreamSwitch *streams);
extern void la_stream_switch_start(LaStreamSwitch *streams);
extern void la_stream_switch_given(LaStreamSwitch *streams, BlockNumber block);
extern LaStreamKind la_stream_switch_wanted(const LaStreamSwitch *streams);
extern void la_stream_switch_change(LaStreamSwitch *streams);

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

#endif							/* LA_STREAM_SWITCH_H */
