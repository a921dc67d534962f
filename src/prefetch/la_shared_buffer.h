/*-------------------------------------------------------------------------
 *
 * la_shared_buffer.h
 *	  is a page in shared buffers?
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_SHARED_BUFFER_H
#define LA_SHARED_BUFFER_H

#include "storage/block.h"
#include "storage/buf.h"
#include "utils/relcache.h"

extern Buffer la_shared_buffer_find(Relation relation, BlockNumber block);

#endif							/* LA_SHARED_BUFFER_H */
