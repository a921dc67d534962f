/*-------------------------------------------------------------------------
 *
 * la_build_scan.h
 *	  reads a table for an index build
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_SCAN_H
#define LA_BUILD_SCAN_H

#include "access/relscan.h"
#include "nodes/execnodes.h"
#include "port/atomics.h"
#include "utils/rel.h"

#include "index_build/sort/la_build_collect.h"

/*
 * What the processes that read one table share.  Each takes the next few
 * blocks that nobody has taken, so what it gets is in ascending order.
 */
typedef struct LaScanShare
{
	BlockNumber nblocks;		/* of the table; never changes */
	BlockNumber step_blocks;	/* taken at a time; never changes */
	pg_atomic_uint64 next_block;
} LaScanShare;

extern void la_build_scan_share_init(LaScanShare *share, Relation heap,
									 int nprocesses);
extern double la_build_scan(Relation heap, Relation index,
							IndexInfo *indexInfo, TableScanDesc pages,
							LaScanShare *share, LaSort *sort);

#endif							/* LA_BUILD_SCAN_H */
