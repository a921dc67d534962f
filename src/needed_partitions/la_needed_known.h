/*-------------------------------------------------------------------------
 *
 * la_needed_known.h
 *	  which tables are known to have an interval policy
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_NEEDED_KNOWN_H
#define LA_NEEDED_KNOWN_H

#include "utils/relcache.h"

extern bool la_needed_known(Relation relation);

#endif							/* LA_NEEDED_KNOWN_H */
