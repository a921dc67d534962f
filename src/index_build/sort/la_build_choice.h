/*-------------------------------------------------------------------------
 *
 * la_build_choice.h
 *	  how much of the sort keys of texts is worth making
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_CHOICE_H
#define LA_BUILD_CHOICE_H

#include "index_build/entries/la_build_spool.h"
#include "index_build/keys/la_build_key.h"

/* Rows of which the texts are looked at; arbitrary. */
#define LA_CHOICE_ROWS 256

extern void la_choose_weights(LaBuildKey *key, LaSpool *spool);

#endif							/* LA_BUILD_CHOICE_H */
