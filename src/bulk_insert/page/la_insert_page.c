/*-------------------------------------------------------------------------
 *
 * la_insert_page.c
 *	  a batch of rows becomes a page of the table
 *
 * The page is in shared buffers, empty and new.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/freespace.h"
#include "storage/predicate.h"

#include "bulk_insert/page/la_insert_page.h"
#include "bulk_insert/page/la_insert_wal.h"

/*
 * Writes the rows to an empty page, which is exclusively locked, and releases it.
 */
void
la_insert_page_write(LaInsertBatch *batch, Buffer buffer, CommandId cid)
{
	Relation	table = batch->table;
	BlockNumber block = BufferGetBlockNumber(buffer);
	Page		page = BufferGetPage(buffer);
	Size		room = PageGetHeapFreeSpace(batch->image.page);

	la_insert_batch_place(batch, block, cid, false);
	START_CRIT_SECTION();
	memcpy(page, batch->image.page, BLCKSZ);
	MarkBufferDirty(buffer);
	if (RelationNeedsWAL(table))
		PageSetLSN(page, la_insert_log_buffer(table, buffer));
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buffer);

	CheckForSerializableConflictIn(table, NULL, InvalidBlockNumber);
	RecordPageWithFreeSpace(table, block, room);

	/* A page that core has begun stays the one that it goes on with. */
	if (room >= la_insert_batch_mean(batch))
		RelationSetTargetBlock(table, block);
	pgstat_count_heap_insert(table, batch->image.rows);
}
