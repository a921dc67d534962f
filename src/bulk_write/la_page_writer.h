/*-------------------------------------------------------------------------
 *
 * la_page_writer.h
 *	  writes the pages of a new relation fork in bulk
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PAGE_WRITER_H
#define LA_PAGE_WRITER_H

#include "storage/block.h"
#include "storage/bufpage.h"
#include "storage/shm_mq.h"
#include "utils/relcache.h"

typedef struct LaPageWriter LaPageWriter;

extern LaPageWriter *la_page_writer_begin(Relation rel, int step_blocks,
										  int batch_blocks);
extern LaPageWriter *la_page_writer_begin_relay(shm_mq_handle *relay);
extern Page la_page_writer_get(LaPageWriter *writer);
extern void la_page_writer_put(LaPageWriter *writer, BlockNumber block,
							   Page page);
extern void la_page_writer_end(LaPageWriter *writer);

#endif							/* LA_PAGE_WRITER_H */
