/*-------------------------------------------------------------------------
 *
 * la_btree_leaf.h
 *	  the leaf page on which a btree scan of core stands
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BTREE_LEAF_H
#define LA_BTREE_LEAF_H

#include "access/genam.h"
#include "access/sdir.h"
#include "access/xlogdefs.h"
#include "storage/block.h"

/*
 * The entries of the leaf on which a btree scan stands.  Positions ascend in
 * the direction of the scan.
 */
typedef struct LaLeafWindow
{
	BlockNumber page;
	XLogRecPtr	lsn;
	int			current;		/* position of the entry returned last */
	int			end;			/* position after the last entry */
} LaLeafWindow;

extern bool la_btree_leaf_window(IndexScanDesc scan, ScanDirection direction,
								 LaLeafWindow *window);
extern BlockNumber la_btree_leaf_block(IndexScanDesc scan,
									   ScanDirection direction, int position);
extern bool la_btree_leaf_as_expected(IndexScanDesc scan, bool has_entry);

#endif							/* LA_BTREE_LEAF_H */
