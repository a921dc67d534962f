/*-------------------------------------------------------------------------
 *
 * la_insert_wal.c
 *	  the WAL record of a page full of new rows
 *
 * It mirrors heap_multi_insert() in heapam.c, for a page that is initialised: replay,
 * logical decoding, standbys and backups know such a record.
 *
 * It tells logical decoding that no toasted values wait for rows of another record (relies on
 * DecodeMultiInsert() in decode.c): of a table that is decoded none do (la_insert_batch.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam_xlog.h"
#include "access/htup_details.h"
#include "access/xloginsert.h"

#include "bulk_insert/page/la_insert_wal.h"

/* The number that the page has in the record. */
#define HEAP_BLOCK 0

static int	begin_record(Relation table, Page page,
						 xl_heap_multi_insert *record);
static XLogRecPtr end_record(Page page);
static Size describe_rows(Page page, char *data);

/*
 * Logs a page in shared buffers, exclusively locked, in a critical section.  Returns
 * where the record ends.
 */
XLogRecPtr
la_insert_log_buffer(Relation table, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	xl_heap_multi_insert record;
	int			flags = begin_record(table, page, &record);

	XLogRegisterBuffer(HEAP_BLOCK, buffer, flags);
	return end_record(page);
}

/*
 * Logs a page of the table's main fork that is in no buffer.
 */
XLogRecPtr
la_insert_log_page(Relation table, BlockNumber block, Page page)
{
	xl_heap_multi_insert record;
	int			flags = begin_record(table, page, &record);

	XLogRegisterBlock(HEAP_BLOCK, &table->rd_locator,
					  MAIN_FORKNUM, block, page, flags);
	return end_record(page);
}

/*
 * Returns the flags with which its page is to be registered.
 */
static int
begin_record(Relation table, Page page, xl_heap_multi_insert *record)
{
	int			flags = REGBUF_STANDARD | REGBUF_WILL_INIT;

	record->ntuples = PageGetMaxOffsetNumber(page);
	record->flags = XLH_INSERT_LAST_IN_MULTI;
	if (RelationIsLogicallyLogged(table))
	{
		record->flags |= XLH_INSERT_CONTAINS_NEW_TUPLE;
		flags |= REGBUF_KEEP_DATA;
	}
	XLogBeginInsert();
	XLogRegisterData(record, SizeOfHeapMultiInsert);
	return flags;
}

static XLogRecPtr
end_record(Page page)
{
	PGAlignedBlock data;

	XLogRegisterBufData(HEAP_BLOCK, data.data,
						describe_rows(page, data.data));
	XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
	return XLogInsert(RM_HEAP2_ID, XLOG_HEAP2_MULTI_INSERT | XLOG_HEAP_INIT_PAGE);
}

/*
 * What the record says of each row.  Returns its length, which is less than that of
 * the rows on the page, because what it says of a row's header is shorter than the
 * header.
 */
static Size
describe_rows(Page page, char *data)
{
	OffsetNumber rows = PageGetMaxOffsetNumber(page);
	char	   *end = data;

	for (OffsetNumber i = FirstOffsetNumber; i <= rows; i++)
	{
		ItemId		item = PageGetItemId(page, i);
		HeapTupleHeader header = (HeapTupleHeader) PageGetItem(page, item);
		xl_multi_insert_tuple *row = (xl_multi_insert_tuple *) SHORTALIGN(end);

		row->datalen = ItemIdGetLength(item) - SizeofHeapTupleHeader;
		row->t_infomask2 = header->t_infomask2;
		row->t_infomask = header->t_infomask;
		row->t_hoff = header->t_hoff;
		end = (char *) row + SizeOfMultiInsertTuple;
		memcpy(end, (char *) header + SizeofHeapTupleHeader, row->datalen);
		end += row->datalen;
	}
	return end - data;
}
