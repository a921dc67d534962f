/*-------------------------------------------------------------------------
 *
 * la_transport.h
 *	  ways to have pages read before they are needed
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_TRANSPORT_H
#define LA_TRANSPORT_H

#include "storage/block.h"
#include "utils/relcache.h"

typedef enum LaTransport
{
	LA_TRANSPORT_ADVICE,		/* ask the kernel; read each page on its turn */
	LA_TRANSPORT_STREAM,		/* asynchronous reads of a read stream */
} LaTransport;

/*
 * How far advice runs ahead of the page being used.  Distances are in pages.
 */
typedef struct LaAdvice
{
	uint32		distance;		/* pages to be ahead now */
	uint32		max_distance;
	uint32		hits;			/* pages used since the kernel was last asked */
	bool		missed;			/* asked since la_advice_adapt() */
} LaAdvice;

extern LaTransport la_transport_choose(void);
extern const char *la_transport_name(LaTransport transport);
extern void la_advice_start(LaAdvice *advice, uint32 max_distance);
extern void la_advice_adapt(LaAdvice *advice);
extern bool la_advice_give(LaAdvice *advice, Relation relation,
						   BlockNumber block);

#endif							/* LA_TRANSPORT_H */
