/*-------------------------------------------------------------------------
 *
 * la_index_next.h
 *	  execution of an index scan node
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INDEX_NEXT_H
#define LA_INDEX_NEXT_H

#include "attach/la_methods.h"

extern const LaFeatureMethods la_index_scan_methods;

#endif							/* LA_INDEX_NEXT_H */
