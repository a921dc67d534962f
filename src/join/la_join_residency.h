/*-------------------------------------------------------------------------
 *
 * la_join_residency.h
 *	  whether the pages that joins ask for are in the system's cache
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_RESIDENCY_H
#define LA_JOIN_RESIDENCY_H

#include "utils/relcache.h"

#include "prefetch/la_residency.h"

extern LaResidency *la_join_residency(Relation table);
extern void la_join_residency_refused(Relation table);

#endif							/* LA_JOIN_RESIDENCY_H */
