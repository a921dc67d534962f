/*-------------------------------------------------------------------------
 *
 * la_build.h
 *	  builds btree indexes in place of core's btbuild()
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_H
#define LA_BUILD_H

#include "access/amapi.h"
#include "nodes/execnodes.h"
#include "utils/rel.h"

extern IndexBuildResult *la_build(Relation heap, Relation index,
								  IndexInfo *indexInfo);

#endif							/* LA_BUILD_H */
