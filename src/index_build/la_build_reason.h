/*-------------------------------------------------------------------------
 *
 * la_build_reason.h
 *	  why the build of an index is left to core
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_REASON_H
#define LA_BUILD_REASON_H

#include "nodes/execnodes.h"

#include "index_build/keys/la_build_key.h"
#include "la_reason.h"

extern LaReason la_build_reason(Relation heap, Relation index,
								IndexInfo *indexInfo, int64 memory,
								LaBuildKey *key);

#endif							/* LA_BUILD_REASON_H */
