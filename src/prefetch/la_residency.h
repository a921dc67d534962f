/*-------------------------------------------------------------------------
 *
 * la_residency.h
 *	  notices that the pages asked for were in memory all along
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_RESIDENCY_H
#define LA_RESIDENCY_H

#include "utils/relcache.h"

/* Watches the scans of one relation. */
typedef struct LaResidency
{
	Relation	relation;
	bool		resident;		/* asking ahead is of no use at present */
	bool		blind;			/* reads for it are not counted */
	uint32		events;			/* requests, or pages read, since the last
								 * look */
	uint32		quiet_looks;	/* looks in a row without a read from a device */
	uint32		passed;			/* requests not made since the last one */
	long		device_blocks;	/* of this process, at the last look */
	int64		reads;			/* pages not in shared buffers, until then */
} LaResidency;

extern void la_residency_init(LaResidency *watch, Relation relation);
extern void la_residency_resume(LaResidency *watch);
extern bool la_residency_read(LaResidency *watch);
extern bool la_residency_asked(LaResidency *watch);
extern bool la_residency_may_ask(LaResidency *watch);
extern void la_residency_not_asked(LaResidency *watch);
extern bool la_residency_is_counted(Relation relation);
extern int64 la_residency_device_pages(void);

#endif							/* LA_RESIDENCY_H */
