/*-------------------------------------------------------------------------
 *
 * la_build_load.h
 *	  fills the pages of a btree with entries in order
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_LOAD_H
#define LA_BUILD_LOAD_H

#include "access/itup.h"
#include "utils/rel.h"

#include "bulk_write/la_page_writer.h"
#include "index_build/la_build_key.h"
#include "index_build/la_build_output.h"

typedef struct LaLoad LaLoad;

/* What a unique index asks for. */
typedef struct LaUniqueness
{
	bool		unique;
	bool		nulls_not_distinct;
} LaUniqueness;

extern LaLoad *la_load_begin(Relation heap, Relation index,
							 const LaBuildKey *key, LaUniqueness uniqueness,
							 LaPageWriter *writer);
extern LaOutput *la_load_output(LaLoad *load);
extern void la_load_begin_part(LaLoad *load, bool are_null);
extern void la_load_words(LaLoad *load, const LaRecord *records, int64 count);
extern void la_load_tuple(LaLoad *load, IndexTuple tuple, uint64 word,
						  uint64 place);
extern bool la_load_end(LaLoad *load);

#endif							/* LA_BUILD_LOAD_H */
