/*-------------------------------------------------------------------------
 *
 * la_build_merge.h
 *	  merges the leader's entries with those of its workers
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_MERGE_H
#define LA_BUILD_MERGE_H

#include "index_build/entries/la_build_output.h"
#include "index_build/keys/la_build_key.h"
#include "index_build/parallel/la_build_stream.h"

extern LaOutput *la_build_merge_begin(LaOutput *next, const LaBuildKey *key,
									  LaStream *streams, int nstreams);

#endif							/* LA_BUILD_MERGE_H */
