/*-------------------------------------------------------------------------
 *
 * la_page_writer.h
 *	  writes new pages of a relation fork in bulk
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PAGE_WRITER_H
#define LA_PAGE_WRITER_H

#include "access/xlogdefs.h"
#include "storage/bufpage.h"
#include "utils/relcache.h"

typedef struct LaPageWriter LaPageWriter;

/*
 * Logs a page that is about to be written, by a record from which replay makes all of
 * it.  Returns where the record ends.
 */
typedef XLogRecPtr (*LaLogPage) (void *arg, BlockNumber block, Page page);

extern LaPageWriter *la_page_writer_begin(Relation rel, int batch_blocks);
extern LaPageWriter *la_page_writer_append(Relation rel, int batch_blocks,
										   LaLogPage log_page, void *arg);
extern Page la_page_writer_get(LaPageWriter *writer);
extern void la_page_writer_put(LaPageWriter *writer, BlockNumber block, Page page);
extern void la_page_writer_end(LaPageWriter *writer);

#endif							/* LA_PAGE_WRITER_H */
