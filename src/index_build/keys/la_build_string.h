/*-------------------------------------------------------------------------
 *
 * la_build_string.h
 *	  the strings of bytes that index keys become, word by word
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_STRING_H
#define LA_BUILD_STRING_H

#include "index_build/keys/la_build_key.h"

extern uint64 la_build_string_value_bits(const LaKeyColumn *column);
extern uint64 la_build_string_word_of_value(const LaKeyColumn *column, Datum value);
extern Datum la_build_string_value_of_word(const LaKeyColumn *column, uint64 word);
extern uint64 la_build_string_fixed_word(const LaKeyColumn *column, Datum value);
extern uint64 la_build_string_first_word(LaBuildKey *key, const Datum *values,
										 const bool *isnull);
extern uint64 la_build_string_make(LaBuildKey *key, const Datum *values,
								   const bool *isnull, LaKeyBytes *kept);
extern bool la_build_string_next_word(const LaBuildKey *key, IndexTuple tuple, int word,
									  uint64 *bytes);
extern int	la_build_string_parting_word(const LaBuildKey *key, IndexTuple a, IndexTuple b,
										 int word, int most);

#endif							/* LA_BUILD_STRING_H */
