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

#include "prefetch/la_trial.h"

/*
 * How dense the blocks of a bitmap lie.
 */
typedef enum LaDensityLevel
{
	LA_DENSITY_SPARSE,
	LA_DENSITY_DENSE,			/* most blocks follow on another one */
	LA_DENSITY_SOLID,			/* nearly all do */
} LaDensityLevel;

typedef struct LaDensity
{
	uint32		counted;		/* blocks since the last look */
	uint32		adjacent;		/* of these, right behind another one */
	BlockNumber last_block;
	LaDensityLevel level;		/* of the blocks counted last */
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
	LaTrial		trial;			/* of a dense part */
} LaStreamSwitch;

extern void la_stream_switch_init(LaStreamSwitch *streams, HeapScanDesc heap,
								  MemoryContext context,
								  ReadStreamBlockNumberCB callback,
								  void *callback_data);
extern void la_stream_switch_begin(LaStreamSwitch *streams);
extern void la_stream_switch_start(LaStreamSwitch *streams);
extern void la_stream_switch_woken(LaStreamSwitch *streams);
extern void la_stream_switch_given(LaStreamSwitch *streams, BlockNumber block);
extern LaStreamKind la_stream_switch_choose(LaStreamSwitch *streams);
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
