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

extern int	la_distance_limit(Relation relation);

#endif							/* LA_DISTANCE_H */
