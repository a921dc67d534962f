/*-------------------------------------------------------------------------
 *
 * la_build_look.h
 *	  what one look at the entries of a spool tells
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_LOOK_H
#define LA_BUILD_LOOK_H

#include "index_build/entries/la_build_spool.h"
#include "index_build/keys/la_build_key.h"
#include "index_build/sort/la_build_bucket.h"

extern bool la_look_in_order(LaSpool *spool, const LaBuildKey *key);
extern bool la_look_has_cut(LaSpool *spool, const LaBuildKey *key);
extern int	la_look_next_word(LaSpool *spool, const LaBuildKey *key, int word,
							  bool *decompressed);
extern void la_look_sample(LaSpool *spool, const LaBuildKey *key, int word,
						   LaSample *sample, uint64 *low, uint64 *high);

#endif							/* LA_BUILD_LOOK_H */
