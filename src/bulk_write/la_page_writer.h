/*-------------------------------------------------------------------------
 *
 * la_page_writer.h
 *	  writes the pages of a new relation fork in bulk
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PAGE_WRITER_H
#define LA_PAGE_WRITER_H

#include "access/xlogdefs.h"
#include "utils/relcache.h"

#include "bulk_write/la_page_sink.h"

/*
 * Logs a page that is about to be written, by a record from which replay makes all of
 * it.  Returns where the record ends.
 */
typedef XLogRecPtr (*LaLogPage) (void *arg, BlockNumber block, Page page);

extern LaPageSink *la_page_writer_begin(Relation rel, int batch_blocks);
extern LaPageSink *la_page_writer_append(Relation rel, int batch_blocks,
										 LaLogPage log_page, void *arg);

#endif							/* LA_PAGE_WRITER_H */
