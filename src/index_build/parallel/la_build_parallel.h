/*-------------------------------------------------------------------------
 *
 * la_build_parallel.h
 *	  has parallel workers take part in an index build
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_PARALLEL_H
#define LA_BUILD_PARALLEL_H

#include "access/genam.h"
#include "nodes/execnodes.h"
#include "storage/dsm.h"
#include "storage/shm_toc.h"
#include "utils/snapshot.h"

#include "index_build/keys/la_build_key.h"
#include "la_reason.h"

extern bool la_build_parallel_has_memory(int nworkers, int64 memory);
extern bool la_build_parallel(Relation heap, Relation index, IndexInfo *indexInfo,
							  LaBuildKey *key, Snapshot snapshot, int64 memory,
							  IndexBuildResult *result, LaReason *reason);
extern PGDLLEXPORT void pg_lookahead_build_worker(dsm_segment *seg,
												  shm_toc *toc);

#endif							/* LA_BUILD_PARALLEL_H */
