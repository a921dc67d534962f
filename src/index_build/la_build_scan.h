/*-------------------------------------------------------------------------
 *
 * la_build_scan.h
 *	  reads a table for an index build
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_SCAN_H
#define LA_BUILD_SCAN_H

#include "nodes/execnodes.h"
#include "utils/rel.h"

#include "index_build/la_build_sort.h"

extern double la_build_scan(Relation heap, Relation index,
							IndexInfo *indexInfo, LaSort *sort);

#endif							/* LA_BUILD_SCAN_H */
