/*-------------------------------------------------------------------------
 *
 * la_build_sort.h
 *	  collects index entries and hands them over in the index's order
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_SORT_H
#define LA_BUILD_SORT_H

#include "index_build/entries/la_build_output.h"
#include "index_build/entries/la_build_spool.h"
#include "index_build/keys/la_build_key.h"

typedef struct LaSort LaSort;

extern LaSort *la_sort_begin(Relation heap, LaBuildKey *key, int64 bytes,
							 LaPoolShare *share);
extern int64 la_sort_pool_chunks(int64 bytes);
extern void la_sort_add(LaSort *sort, const ItemPointerData *tid,
						const Datum *values, const bool *isnull, bool alive);
extern bool la_sort_takes_values(const LaSort *sort);
extern void la_sort_add_values(LaSort *sort, const Datum *values,
							   const uint64 *places, int count);
extern void la_sort_limit_memory(LaSort *sort, double fraction_done);
extern bool la_sort_is_refused(const LaSort *sort);
extern int64 la_sort_count(const LaSort *sort);
extern bool la_sort_is_in_order(const LaSort *sort);
extern void la_sort_finish(LaSort *sort, LaOutput *output);

#endif							/* LA_BUILD_SORT_H */
