/*-------------------------------------------------------------------------
 *
 * la_build_run.h
 *	  merges entries that came in order with others
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_RUN_H
#define LA_BUILD_RUN_H

#include "index_build/entries/la_build_output.h"
#include "index_build/entries/la_build_spool.h"
#include "index_build/keys/la_build_key.h"

extern LaOutput *la_run_begin(LaOutput *next, const LaBuildKey *key,
							  LaSpool *run);

#endif							/* LA_BUILD_RUN_H */
