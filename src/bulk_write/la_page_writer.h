/*-------------------------------------------------------------------------
 *
 * la_page_writer.h
 *	  writes the pages of a new relation fork in bulk
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PAGE_WRITER_H
#define LA_PAGE_WRITER_H

#include "utils/relcache.h"

#include "bulk_write/la_page_sink.h"

extern LaPageSink *la_page_writer_begin(Relation rel, int step_blocks,
										int batch_blocks);

#endif							/* LA_PAGE_WRITER_H */
