/*-------------------------------------------------------------------------
 *
 * la_hits.h
 *	  pages that a look ahead finds in shared buffers, which are not counted
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_HITS_H
#define LA_HITS_H

#include "utils/relcache.h"

/* Pages found in shared buffers so far, in all and of one relation. */
typedef struct LaHits
{
	int64		all;
	int64		relation;
} LaHits;

extern LaHits la_hits_begin(Relation relation);
extern void la_hits_forget(Relation relation, LaHits hits);

#endif							/* LA_HITS_H */
