/*-------------------------------------------------------------------------
 *
 * la_build_radix.h
 *	  sorts index entries by the words of their keys
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_RADIX_H
#define LA_BUILD_RADIX_H

#include "index_build/entries/la_build_spool.h"
#include "index_build/keys/la_build_key.h"

/*
 * An entry that is being sorted: a word of its key and what belongs to it.
 * Without index tuples it is the same as a record.
 */
typedef struct LaEntry
{
	uint64		word;
	union
	{
		LaRecord   *record;		/* with index tuples */
		uint64		place;		/* without */
	};
} LaEntry;

StaticAssertDecl(sizeof(LaEntry) == sizeof(LaRecord) &&
				 offsetof(LaEntry, place) == offsetof(LaRecord, place),
				 "LaEntry must be usable as LaRecord");

typedef struct LaRadix
{
	const LaBuildKey *key;
	bool		has_tuples;		/* entries point to records */
	bool		places_disordered;	/* equal keys need sorting by place */
} LaRadix;

/*
 * Bytes for each entry, besides the entry and its copy, for groups that wait to be
 * sorted.
 */
#define LA_RADIX_GROUP_BYTES 2

/*
 * Memory for sorting so many entries.
 */
static inline int64
la_build_radix_memory(int64 count)
{
	return count * (2 * sizeof(LaEntry) + LA_RADIX_GROUP_BYTES);
}

extern void la_build_radix_sort(const LaRadix *radix, LaEntry *entries, LaEntry *copy,
								int64 count, int word);

#endif							/* LA_BUILD_RADIX_H */
