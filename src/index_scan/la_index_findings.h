/*-------------------------------------------------------------------------
 *
 * la_index_findings.h
 *	  what an index scan finds out while it is awake, whoever delivers its rows:
 *	  core's functions or a ring
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INDEX_FINDINGS_H
#define LA_INDEX_FINDINGS_H

#include "prefetch/la_residency.h"
#include "prefetch/la_wake.h"

typedef struct LaIndexFindings
{
	LaWake		wake;			/* looks at entries */
	LaResidency residency;		/* do pages come from a device? */
	uint32		reads_to_pass;	/* pages to be read before that counts */
	bool		lock_step;		/* dead entries of an AM that must be asked
								 * for one entry at a time: no ring */
} LaIndexFindings;

#endif							/* LA_INDEX_FINDINGS_H */
