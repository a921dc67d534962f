/*-------------------------------------------------------------------------
 *
 * la_build_output.h
 *	  where index entries go once they are in order
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_OUTPUT_H
#define LA_BUILD_OUTPUT_H

#include "access/itup.h"

#include "index_build/entries/la_build_record.h"

/*
 * Entries come in two parts, in the order of the index: those whose first
 * column is NULL, and the others.  Either may be empty.  Within a part it is
 * words if the word is the whole key (see LaBuildKey.is_word), else index
 * tuples with the first word of their keys.  Those that came in order without keys
 * (see la_build_collect.c) all have the word 0.
 */
typedef struct LaOutput
{
	void		(*begin_part) (struct LaOutput *output, bool are_null);
	void		(*add_words) (struct LaOutput *output,
							  const LaRecord *records, int64 count);
	void		(*add_tuple) (struct LaOutput *output, IndexTuple tuple,
							  uint64 word, uint64 place);
	void		(*end_part) (struct LaOutput *output);
} LaOutput;

#endif							/* LA_BUILD_OUTPUT_H */
