/*-------------------------------------------------------------------------
 *
 * la_build_choice.h
 *	  how much of the sort keys of texts is worth making
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_CHOICE_H
#define LA_BUILD_CHOICE_H

#include "index_build/keys/la_build_key.h"

/* Rows of which the texts are looked at; arbitrary. */
#define LA_CHOICE_ROWS 256

typedef struct LaChoice LaChoice;

extern LaChoice *la_choice_begin(LaBuildKey *key, int64 bytes);
extern void la_choice_add(LaChoice *choice, IndexTuple tuple);
extern void la_choice_end(LaChoice *choice);

#endif							/* LA_BUILD_CHOICE_H */
