/*-------------------------------------------------------------------------
 *
 * la_build_put.h
 *	  sorts the entries of one spool and hands them over
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_PUT_H
#define LA_BUILD_PUT_H

#include "index_build/entries/la_build_output.h"
#include "index_build/sort/la_build_collect.h"

/* The entries of a sort on their way. */
typedef struct LaDrain
{
	LaSort	   *sort;
	LaOutput   *output;
	bool		are_null;		/* the part of the output, see
								 * la_build_output.h */
} LaDrain;

/* Words of the entries of a spool; everything before them is equal. */
typedef struct LaWordRange
{
	int			word;			/* the word-th of the keys */
	uint64		first_word;		/* if that is a later one: the first */
	uint64		low;
	uint64		high;
	int			npasses;		/* times the entries have been distributed */
	LaSample   *sample;			/* of the words; NULL: of these there is none */
} LaWordRange;

extern void la_build_put_as_it_is(LaDrain *drain, LaSpool *spool,
								  const LaWordRange *range);
extern void la_build_put_sorted(LaDrain *drain, LaSpool *spool,
								const LaWordRange *range);
extern void la_build_put_sorted_by_core(LaDrain *drain, LaSpool *spool,
										const LaWordRange *range);

#endif							/* LA_BUILD_PUT_H */
