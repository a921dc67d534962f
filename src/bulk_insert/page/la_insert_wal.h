/*-------------------------------------------------------------------------
 *
 * la_insert_wal.h
 *	  the WAL record of a page full of new rows
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_WAL_H
#define LA_INSERT_WAL_H

#include "access/xlogdefs.h"
#include "storage/bufpage.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

extern XLogRecPtr la_insert_log_buffer(Relation table, Buffer buffer);
extern XLogRecPtr la_insert_log_page(Relation table, BlockNumber block,
									 Page page);

#endif							/* LA_INSERT_WAL_H */
