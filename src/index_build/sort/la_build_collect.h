/*-------------------------------------------------------------------------
 *
 * la_build_collect.h
 *	  collects index entries
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_COLLECT_H
#define LA_BUILD_COLLECT_H

#include "index_build/entries/la_build_spool.h"
#include "index_build/keys/la_build_key.h"
#include "index_build/sort/la_build_bucket.h"
#include "la_reason.h"

typedef struct LaSort
{
	Relation	heap;
	LaBuildKey *key;
	int64		bytes;			/* memory for everything */
	int64		sort_bytes;		/* of it, for sorting one bucket */
	LaChunkPool pool;			/* has the rest */
	int64		reserve;		/* chunks of it, see la_build_buckets_most() */

	LaSpool		spool;			/* until there are buckets */
	LaSpool		nulls;			/* first column is NULL */
	LaBuckets  *buckets;		/* once memory was full */
	LaSample	sample;			/* of the words */
	LaKeyBytes *kept;			/* where strings are kept: room for one */

	/*
	 * While all rows have come in the index's order, texts that need sort
	 * keys have none: words are 0 and strings empty.  The last rows of
	 * `spool` and `nulls`; room for any.
	 */
	bool		in_order;
	IndexTuple	last[2];

	MemoryContext tuple_context;	/* for index_form_tuple() */
	int64		next_look;		/* chunks in use when it is looked whether
								 * words divide the entries */
	double		fraction_done;	/* how much of the table has been read */
	uint64		last_place;
	bool		places_disordered;

	/* Results of the collection. */
	int64		count;
	LaReason	reason;			/* why core has to build the index */
} LaSort;

extern LaSort *la_build_collect_begin(Relation heap, LaBuildKey *key, int64 bytes,
									  bool is_shared);
extern void la_build_collect_add(LaSort *sort, const ItemPointerData *tid,
								 const Datum *values, const bool *isnull, bool alive);
extern void la_build_collect_add_values(LaSort *sort, const Datum *values,
										const uint64 *places, int count);
extern void la_build_collect_limit_memory(LaSort *sort, double fraction_done);
extern void la_build_collect_discard(LaSort *sort);

#endif							/* LA_BUILD_COLLECT_H */
