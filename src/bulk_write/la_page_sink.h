/*-------------------------------------------------------------------------
 *
 * la_page_sink.h
 *	  where the finished pages of a new relation fork go
 *
 * Who fills pages, of whatever kind of relation, asks for each one, puts it
 * under its block number when it is finished, each once and in any order, and
 * ends when there are no more.  The sink sees to WAL and file
 * (la_page_writer.c), or has somebody else do so.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PAGE_SINK_H
#define LA_PAGE_SINK_H

#include "storage/block.h"
#include "storage/bufpage.h"

typedef struct LaPageSink
{
	/*
	 * A page to fill.  Its content is undefined; it belongs to the caller
	 * until it is put.
	 */
	Page		(*get) (struct LaPageSink *sink);

	/* Takes a finished page, of standard layout. */
	void		(*put) (struct LaPageSink *sink, BlockNumber block, Page page);

	/* There are no more. */
	void		(*end) (struct LaPageSink *sink);
} LaPageSink;

#endif							/* LA_PAGE_SINK_H */
