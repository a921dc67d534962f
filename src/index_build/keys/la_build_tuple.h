/*-------------------------------------------------------------------------
 *
 * la_build_tuple.h
 *	  index tuples of rows: their size, how they are made and compared
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_TUPLE_H
#define LA_BUILD_TUPLE_H

#include "index_build/keys/la_build_key.h"

/* Bytes of the index tuple of a key that is a word, see LaBuildKey.is_word. */
#define LA_WORD_TUPLE_SIZE MAXALIGN(sizeof(IndexTupleData) + sizeof(uint64))

/*
 * Not on x86 of 32 bits, where core's has 12 bytes: amcheck, which makes each tuple again
 * and compares, would find no row of such an index.
 */
StaticAssertDecl(LA_WORD_TUPLE_SIZE == MAXALIGN(sizeof(IndexTupleData) + sizeof(char)),
				 "index tuples of words must have core's size, whatever the width");

/* What a value has of its word, if that is the whole key. */
typedef struct LaWordForm
{
	int			width;			/* bytes */
	uint64		value_bits;		/* as many of the lowest bits as it has */
	uint64		flipped_bits;	/* of these, see
								 * la_build_string_value_of_word() */
} LaWordForm;

extern void la_build_word_form_init(LaWordForm *form, const LaBuildKey *key);
extern Size la_build_tuple_plain_size(const LaBuildKey *key, const Datum *values,
									  const bool *isnull);
extern void la_build_tuple_form(const LaBuildKey *key, const Datum *values,
								Size size, IndexTuple tuple);
extern int	la_build_tuple_compare(const LaBuildKey *key, IndexTuple a, IndexTuple b,
								   bool *has_null);
extern int	la_build_tuple_compare_order(const LaBuildKey *key, IndexTuple a,
										 IndexTuple b);

/*
 * The index tuple of one value passed by value, or of NULL; without its TID.
 * Mirrors index_form_tuple_context() in indextuple.c.
 */
static inline void
la_build_word_form_tuple(const LaWordForm *form, IndexTuple tuple, uint64 word,
						 bool isnull)
{
	uint64		image = isnull ? 0 : (word ^ form->flipped_bits) & form->value_bits;

#ifdef WORDS_BIGENDIAN
	image <<= 64 - 8 * form->width;
#endif
	memcpy((char *) tuple + sizeof(IndexTupleData), &image, sizeof(image));
	tuple->t_info = isnull ? LA_WORD_TUPLE_SIZE | INDEX_NULL_MASK : LA_WORD_TUPLE_SIZE;
}

#endif							/* LA_BUILD_TUPLE_H */
