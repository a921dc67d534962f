/*-------------------------------------------------------------------------
 *
 * la_build_load.h
 *	  makes btree items of entries in order, and with them the index
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_LOAD_H
#define LA_BUILD_LOAD_H

#include "nodes/execnodes.h"
#include "utils/rel.h"

#include "bulk_write/la_page_writer.h"
#include "index_build/entries/la_build_output.h"
#include "index_build/keys/la_build_key.h"

/* Most finished pages that are kept before they are written: 4 MB. */
#define LA_BUILD_BATCH_BLOCKS ((4 * 1024 * 1024) / BLCKSZ)

typedef struct LaLoad LaLoad;

extern LaLoad *la_build_load_begin(Relation heap, Relation index,
								   const LaBuildKey *key, const IndexInfo *indexInfo,
								   int64 count, LaPageWriter *pages);
extern LaOutput *la_build_load_output(LaLoad *load);
extern void la_build_load_trust_order(LaLoad *load);
extern void la_build_load_abandon(LaLoad *load);
extern bool la_build_load_end(LaLoad *load);

#endif							/* LA_BUILD_LOAD_H */
