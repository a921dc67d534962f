/*-------------------------------------------------------------------------
 *
 * la_build_prospect.h
 *	  tells early whether distributing index entries by words will be of use
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_PROSPECT_H
#define LA_BUILD_PROSPECT_H

#include "index_build/entries/la_build_spool.h"
#include "index_build/keys/la_build_key.h"

extern bool la_prospect_is_poor(const LaBuildKey *key, LaSpool *spool,
								int64 bytes, double fraction_done);

#endif							/* LA_BUILD_PROSPECT_H */
