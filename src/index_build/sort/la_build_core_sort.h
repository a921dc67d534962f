/*-------------------------------------------------------------------------
 *
 * la_build_core_sort.h
 *	  sorts index entries by core's tuplesort
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_CORE_SORT_H
#define LA_BUILD_CORE_SORT_H

#include "index_build/entries/la_build_output.h"
#include "index_build/entries/la_build_spool.h"
#include "index_build/keys/la_build_key.h"

typedef struct LaCoreSort LaCoreSort;

extern LaCoreSort *la_core_sort_begin(Relation heap, LaBuildKey *key,
									  int64 bytes);
extern void la_core_sort_add(LaCoreSort *core, uint64 place,
							 const Datum *values, const bool *isnull);
extern void la_core_sort_add_spool(LaCoreSort *core, LaSpool *spool,
								   bool are_null);
extern void la_core_sort_perform(LaCoreSort *core);
extern void la_core_sort_put_part(LaCoreSort *core, LaOutput *output,
								  bool are_null, bool make_words,
								  uint64 word);
extern void la_core_sort_end(LaCoreSort *core);

#endif							/* LA_BUILD_CORE_SORT_H */
