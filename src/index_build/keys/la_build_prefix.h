/*-------------------------------------------------------------------------
 *
 * la_build_prefix.h
 *	  how far the keys of many entries agree
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_PREFIX_H
#define LA_BUILD_PREFIX_H

#include "index_build/keys/la_build_key.h"

/* The common prefix of the strings of some keys (see la_build_string.c). */
typedef struct LaPrefix
{
	const LaBuildKey *key;
	IndexTuple	first;			/* one of the keys, which stays where it is */
	Datum		values[INDEX_MAX_KEYS]; /* of it, decompressed */
	bool		isnull[INDEX_MAX_KEYS];
	int			whole;			/* bytes of its string */
	int			length;			/* most bytes that all have in common */
	bool		decompressed;	/* finding out was not cheap */
} LaPrefix;

extern void la_prefix_begin(LaPrefix *prefix, const LaBuildKey *key,
							IndexTuple first);
extern void la_prefix_add(LaPrefix *prefix, IndexTuple tuple);
extern void la_prefix_end(LaPrefix *prefix);

/*
 * True if the strings are all equal.
 */
static inline bool
la_prefix_is_whole(const LaPrefix *prefix)
{
	return prefix->length == prefix->whole;
}

#endif							/* LA_BUILD_PREFIX_H */
