/*-------------------------------------------------------------------------
 *
 * la_index_peek.h
 *	  advice for index scans that are executed by core
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INDEX_PEEK_H
#define LA_INDEX_PEEK_H

#include "access/genam.h"
#include "access/sdir.h"

#include "attach/la_registry.h"

typedef struct LaIndexPeek LaIndexPeek;

extern LaIndexPeek *la_index_peek_create(LaNode *node, IndexScanDesc scan);
extern void la_index_peek(LaIndexPeek *peek, ScanDirection direction);

#endif							/* LA_INDEX_PEEK_H */
