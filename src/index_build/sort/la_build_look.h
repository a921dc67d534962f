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

/* What la_build_look_next_word() returns where there is none. */
#define LA_NO_WORD PG_INT32_MAX

extern bool la_build_look_in_order(LaSpool *spool, const LaBuildKey *key);
extern int	la_build_look_next_word(LaSpool *spool, const LaBuildKey *key, int word);
extern void la_build_look_sample(LaSpool *spool, const LaBuildKey *key, int word,
								 LaSample *sample, uint64 *low, uint64 *high);
extern bool la_build_look_is_poor(const LaBuildKey *key, LaSpool *spool, int64 bytes,
								  double fraction_done);

#endif							/* LA_BUILD_LOOK_H */
