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
#include "storage/read_stream.h"

#include "heap_scan/la_density.h"
#include "prefetch/la_trial.h"

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

#endif							/* LA_STREAM_SWITCH_H */
