/*-------------------------------------------------------------------------
 *
 * la_distance.h
 *	  how many requests a scan may have in flight
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_DISTANCE_H
#define LA_DISTANCE_H

#include "utils/relcache.h"

extern int	la_distance_limit(Relation relation, bool partial_fetch);

#endif							/* LA_DISTANCE_H */
