/*-------------------------------------------------------------------------
 *
 * la_build_merge.h
 *	  merges the leader's entries with those of its workers
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_MERGE_H
#define LA_BUILD_MERGE_H

#include "index_build/la_build_key.h"
#include "index_build/la_build_load.h"
#include "index_build/la_build_stream.h"

extern LaOutput *la_merge_begin(LaLoad *load, const LaBuildKey *key,
								LaStream *streams, int nstreams);

#endif							/* LA_BUILD_MERGE_H */
