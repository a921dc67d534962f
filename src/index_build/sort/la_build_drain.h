/*-------------------------------------------------------------------------
 *
 * la_build_drain.h
 *	  hands collected index entries over in the index's order
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_DRAIN_H
#define LA_BUILD_DRAIN_H

#include "index_build/entries/la_build_output.h"
#include "index_build/sort/la_build_collect.h"

extern void la_build_drain(LaSort *sort, LaOutput *output);

#endif							/* LA_BUILD_DRAIN_H */
