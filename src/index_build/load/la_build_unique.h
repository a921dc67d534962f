/*-------------------------------------------------------------------------
 *
 * la_build_unique.h
 *	  whether the keys of a unique index are unique
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_UNIQUE_H
#define LA_BUILD_UNIQUE_H

#include "utils/rel.h"

#include "index_build/keys/la_build_key.h"
#include "index_build/keys/la_build_tuple.h"

/* The last live entry, which the next one is compared with. */
typedef struct LaUniqueCheck
{
	Relation	heap;
	Relation	index;
	const LaBuildKey *key;
	bool		nulls_not_distinct;
	bool		has_live;
	bool		live_isnull;
	uint64		live_word;		/* where that is the whole key */
	IndexTuple	live;			/* elsewhere; room for the largest */
} LaUniqueCheck;

extern void la_build_unique_begin(LaUniqueCheck *check, Relation heap, Relation index,
								  const LaBuildKey *key, bool nulls_not_distinct);
extern void la_build_unique_check_tuple(LaUniqueCheck *check, IndexTuple tuple);
pg_noreturn extern void la_build_unique_report_word(LaUniqueCheck *check);

/*
 * Checks a live entry whose key is a word, or NULL.
 */
static inline void
la_build_unique_check_word(LaUniqueCheck *check, uint64 word, bool isnull)
{
	if (check->has_live && check->live_word == word &&
		check->live_isnull == isnull &&
		(!isnull || check->nulls_not_distinct))
		la_build_unique_report_word(check);
	check->has_live = true;
	check->live_word = word;
	check->live_isnull = isnull;
}

#endif							/* LA_BUILD_UNIQUE_H */
