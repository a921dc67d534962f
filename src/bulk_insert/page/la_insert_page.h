/*-------------------------------------------------------------------------
 *
 * la_insert_page.h
 *	  a batch of rows becomes a page of the table
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_PAGE_H
#define LA_INSERT_PAGE_H

#include "storage/bufmgr.h"

#include "bulk_insert/page/la_insert_batch.h"

extern void la_insert_page_write(LaInsertBatch *batch, Buffer buffer,
								 CommandId cid);

#endif							/* LA_INSERT_PAGE_H */
