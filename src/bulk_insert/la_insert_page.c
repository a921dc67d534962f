/*-------------------------------------------------------------------------
 *
 * la_insert_page.c
 *	  a batch of rows becomes a page of the table
 *
 * The page is in shared buffers, empty and new, and its WAL record is the one that
 * heap_multi_insert() in heapam.c writes for a page that it has initialised: replay,
 * logical decoding, standbys and backups know it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/heapam_xlog.h"
#include "access/xact.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/freespace.h"
#include "storage/predicate.h"

#include "bulk_insert/la_insert_page.h"

static void stamp(LaInsertBatch *batch, BlockNumber block, CommandId cid);
static XLogRecPtr log_page(const LaInsertBatch *batch, Buffer buffer,
						   bool last);
static Size describe_rows(const LaInsertBatch *batch, char *data);

/*
 * Writes the rows to an empty page, which is exclusively locked, and releases it.
 * The caller says whether nothing that was toasted still waits for its row: logical
 * decoding then forgets the toasted values.
 */
void
la_insert_page_write(LaInsertBatch *batch, Buffer buffer, CommandId cid,
					 bool last)
{
	Relation	table = batch->table;
	BlockNumber block = BufferGetBlockNumber(buffer);
	Page		page = BufferGetPage(buffer);

	stamp(batch, block, cid);
	START_CRIT_SECTION();
	memcpy(page, batch->image, BLCKSZ);
	MarkBufferDirty(buffer);
	if (RelationNeedsWAL(table))
		PageSetLSN(page, log_page(batch, buffer, last));
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buffer);

	CheckForSerializableConflictIn(table, NULL, InvalidBlockNumber);
	RecordPageWithFreeSpace(table, block, PageGetHeapFreeSpace(batch->image));
	RelationSetTargetBlock(table, block);
	pgstat_count_heap_insert(table, batch->rows);
}

/*
 * The rows get their place, and their transaction: as by heap_prepare_insert() and
 * RelationPutHeapTuple().
 */
static void
stamp(LaInsertBatch *batch, BlockNumber block, CommandId cid)
{
	TransactionId xid = GetCurrentTransactionId();

	for (int i = 0; i < batch->rows; i++)
	{
		HeapTuple	tuple = &batch->tuples[i];
		HeapTupleHeader header = tuple->t_data;

		ItemPointerSet(&tuple->t_self, block, i + 1);
		header->t_infomask &= ~HEAP_XACT_MASK;
		header->t_infomask2 &= ~HEAP2_XACT_MASK;
		header->t_infomask |= HEAP_XMAX_INVALID;
		HeapTupleHeaderSetXmin(header, xid);
		HeapTupleHeaderSetCmin(header, cid);
		HeapTupleHeaderSetXmax(header, 0);
		header->t_ctid = tuple->t_self;
	}
}

/*
 * Returns where its WAL record ends.
 */
static XLogRecPtr
log_page(const LaInsertBatch *batch, Buffer buffer, bool last)
{
	PGAlignedBlock data;
	xl_heap_multi_insert record = {0};
	int			keep = 0;

	record.ntuples = batch->rows;
	if (last)
		record.flags |= XLH_INSERT_LAST_IN_MULTI;
	if (RelationIsLogicallyLogged(batch->table))
	{
		record.flags |= XLH_INSERT_CONTAINS_NEW_TUPLE;
		keep = REGBUF_KEEP_DATA;
	}

	XLogBeginInsert();
	XLogRegisterData(&record, SizeOfHeapMultiInsert);
	XLogRegisterBuffer(0, buffer, REGBUF_STANDARD | REGBUF_WILL_INIT | keep);
	XLogRegisterBufData(0, data.data, describe_rows(batch, data.data));
	XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
	return XLogInsert(RM_HEAP2_ID, XLOG_HEAP2_MULTI_INSERT | XLOG_HEAP_INIT_PAGE);
}

/*
 * What the record says of each row.  Returns its length, which is less than that of
 * the rows on the page, because a row's part of their header is shorter than what is
 * left out of it.
 */
static Size
describe_rows(const LaInsertBatch *batch, char *data)
{
	char	   *end = data;

	for (int i = 0; i < batch->rows; i++)
	{
		const HeapTupleData *tuple = &batch->tuples[i];
		xl_multi_insert_tuple *row = (xl_multi_insert_tuple *) SHORTALIGN(end);

		row->datalen = tuple->t_len - SizeofHeapTupleHeader;
		row->t_infomask2 = tuple->t_data->t_infomask2;
		row->t_infomask = tuple->t_data->t_infomask;
		row->t_hoff = tuple->t_data->t_hoff;
		end = (char *) row + SizeOfMultiInsertTuple;
		memcpy(end, (char *) tuple->t_data + SizeofHeapTupleHeader,
			   row->datalen);
		end += row->datalen;
	}
	return end - data;
}
