/*-------------------------------------------------------------------------
 *
 * la_build_radix.h
 *	  sorts index entries by the words of their keys
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_RADIX_H
#define LA_BUILD_RADIX_H

#include "index_build/la_build_key.h"
#include "index_build/la_build_spool.h"

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
	bool		first_word_only;	/* la_key_next_word() is of no use */
} LaRadix;

extern void la_radix_sort(LaRadix *radix, LaEntry *entries, LaEntry *copy,
						  int64 count, int word);

#endif							/* LA_BUILD_RADIX_H */
