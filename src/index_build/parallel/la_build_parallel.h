/*-------------------------------------------------------------------------
 *
 * la_build_parallel.h
 *	  has parallel workers take part in an index build
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_PARALLEL_H
#define LA_BUILD_PARALLEL_H

#include "nodes/execnodes.h"
#include "utils/rel.h"

#include "bulk_write/la_page_sink.h"
#include "index_build/keys/la_build_key.h"
#include "index_build/parallel/la_build_stream.h"
#include "index_build/scan/la_build_scan.h"

typedef struct LaParallel LaParallel;

/* Most finished pages that are kept before they are written: 4 MB. */
#define LA_BUILD_BATCH_BLOCKS ((4 * 1024 * 1024) / BLCKSZ)

extern bool la_parallel_has_memory(int nworkers, int64 memory);
extern LaParallel *la_parallel_begin(Relation heap, Relation index,
									 IndexInfo *indexInfo, Snapshot snapshot,
									 int64 memory);
extern LaScanShare *la_parallel_scan(LaParallel *parallel);
extern int64 la_parallel_sort_memory(const LaParallel *parallel);
extern LaPoolShare *la_parallel_pools(LaParallel *parallel);
extern LaPageSink *la_parallel_pages(LaParallel *parallel, Relation index);
extern int	la_parallel_streams(LaParallel *parallel, const LaBuildKey *key,
								LaStream **streams);
extern void la_parallel_end(LaParallel *parallel);
extern PGDLLEXPORT void pg_lookahead_build_worker(dsm_segment *seg,
												  shm_toc *toc);

#endif							/* LA_BUILD_PARALLEL_H */
