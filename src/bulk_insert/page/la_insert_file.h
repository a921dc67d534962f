/*-------------------------------------------------------------------------
 *
 * la_insert_file.h
 *	  rows are appended to a file that this transaction has made
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_FILE_H
#define LA_INSERT_FILE_H

#include "bulk_insert/page/la_insert_batch.h"
#include "bulk_write/la_page_writer.h"
#include "la_counters.h"

typedef struct LaInsertFile
{
	LaInsertBatch *batch;
	LaPageWriter *pages;
	BlockNumber next;
	CommandId	cid;
	int			options;		/* of heap_insert() */
	LaCounters *counters;
} LaInsertFile;

extern bool la_insert_file_is_ours(Relation table);
extern LaInsertFile *la_insert_file_begin(LaInsertBatch *batch, CommandId cid,
										  int options, LaCounters *counters);
extern bool la_insert_file_add(LaInsertFile *file, TupleTableSlot *row);
extern void la_insert_file_end(LaInsertFile *file);

#endif							/* LA_INSERT_FILE_H */
