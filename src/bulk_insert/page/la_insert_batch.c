/*-------------------------------------------------------------------------
 *
 * la_insert_batch.c
 *	  the rows of one page: as tuples, toasted, written and logged
 *
 * The rows of one page, on an image of it (la_insert_image.c), and as tuples: while they
 * are inserted.
 *
 * For pages that core fills, core toasts.  For a page of ours it is done before the row is
 * put on its image.  Mirrors heap_prepare_insert() in heapam.c.
 *
 * Logical decoding keeps toasted values in memory until the row comes that they belong to: in
 * its queue, and again when it replays the transaction, whatever logical_decoding_work_mem
 * says.  A page may take hundreds of rows, and so gigabytes of values, until it is full.
 * Rows of tables that are decoded are therefore toasted by core, each just before it is inserted.
 * Relies on ReorderBufferToastAppendChunk() in reorderbuffer.c.
 *
 * The WAL record of a page mirrors that of heap_multi_insert() in heapam.c, for a page that is
 * initialised: replay, logical decoding, standbys and backups know such a record.  Its flag
 * XLH_INSERT_LAST_IN_MULTI has logical decoding drop the toasted values that it keeps (relies on
 * DecodeMultiInsert() in decode.c).  There are none: rows of decoded tables are toasted by core.
 *
 * Reads PageHeaderData of bufpage.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/heapam_xlog.h"
#include "access/heaptoast.h"
#include "access/xact.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/freespace.h"
#include "storage/predicate.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "bulk_insert/page/la_insert_batch.h"

/* The number that the page has in the record. */
#define HEAP_BLOCK 0

/* As many rows as many a statement has: arbitrary. */
#define FEW_ROWS 8

/*
 * The batch, which is empty, is for this table from now on.
 */
void
la_insert_batch_retarget(LaInsertBatch *batch, Relation table)
{
	Assert(batch->image.rows == 0);
	batch->table = table;
	batch->spare = RelationGetTargetPageFreeSpace(table,
												  HEAP_DEFAULT_FILLFACTOR);
}

/*
 * A batch for this table, in the current context.  Its image keeps the lines of the input of rows
 * when it is told where to find that of a row.
 */
LaInsertBatch *
la_insert_batch_begin(Relation table, const uint64 *line)
{
	LaInsertBatch *batch = palloc0_object(LaInsertBatch);

	la_insert_batch_retarget(batch, table);
	batch->context = CurrentMemoryContext;
	la_insert_image_clear(&batch->image, palloc_aligned(BLCKSZ, PG_IO_ALIGN_SIZE, 0));
	batch->image.line = line;
	if (line != NULL)
		batch->image.lines = palloc_array(uint64, MaxHeapTuplesPerPage);
	return batch;
}

/*
 * The batch, whose rows are complete, gets them as tuples.  Room for those of a page is not made
 * for a few.
 */
void
la_insert_batch_make_tuples(LaInsertBatch *batch)
{
	int			rows = batch->image.rows;

	if (rows > batch->room)
	{
		if (batch->tuples != NULL)
			pfree(batch->tuples);
		batch->room = rows <= FEW_ROWS ? FEW_ROWS : MaxHeapTuplesPerPage;
		batch->tuples = MemoryContextAlloc(batch->context,
										   batch->room * sizeof(HeapTupleData));
	}
	for (int i = 0; i < rows; i++)
	{
		ItemId		item = PageGetItemId(batch->image.page, i + 1);
		HeapTuple	tuple = &batch->tuples[i];

		tuple->t_len = ItemIdGetLength(item);
		tuple->t_data = (HeapTupleHeader) PageGetItem(batch->image.page, item);
		tuple->t_tableOid = RelationGetRelid(batch->table);
		ItemPointerSetInvalid(&tuple->t_self);
	}
}

/*
 * A slot for each row, of its tuple on the image.  They have a descriptor of their
 * own, which need not be remembered once for each slot.
 */
TupleTableSlot **
la_insert_batch_slots(LaInsertBatch *batch)
{
	MemoryContext caller = MemoryContextSwitchTo(batch->context);

	if (batch->slots == NULL)
	{
		batch->descriptor = CreateTupleDescCopy(RelationGetDescr(batch->table));
		batch->slots = palloc0_array(TupleTableSlot *, MaxHeapTuplesPerPage);
	}
	for (int i = 0; i < batch->image.rows; i++)
	{
		if (batch->slots[i] == NULL)
			batch->slots[i] = MakeSingleTupleTableSlot(batch->descriptor,
													   &TTSOpsHeapTuple);
		ExecStoreHeapTuple(&batch->tuples[i], batch->slots[i], false);
		batch->slots[i]->tts_tableOid = RelationGetRelid(batch->table);
	}
	MemoryContextSwitchTo(caller);
	return batch->slots;
}

/*
 * How many bytes one of the rows, of which there is one at least, needs on another page,
 * in the mean.  No more than an empty page has, whatever the fillfactor.
 */
Size
la_insert_batch_mean(const LaInsertBatch *batch)
{
	Size		mean = la_insert_image_bytes(&batch->image) / batch->image.rows;

	return Min(mean + sizeof(ItemIdData) + batch->spare, MaxHeapTupleSize);
}

/*
 * The rows get their places on a page, and their transaction.  Mirrors
 * heap_prepare_insert() in heapam.c and RelationPutHeapTuple() in hio.c.  Frozen
 * rows are seen by everybody who can see the table's file.  Between line
 * pointers and rows the page becomes as empty as a new one.
 */
void
la_insert_batch_place(LaInsertBatch *batch, BlockNumber block, CommandId cid,
					  bool frozen)
{
	PageHeader	page = (PageHeader) batch->image.page;
	TransactionId xid = GetCurrentTransactionId();

	for (int i = 0; i < batch->image.rows; i++)
	{
		HeapTuple	tuple = &batch->tuples[i];
		HeapTupleHeader header = tuple->t_data;

		ItemPointerSet(&tuple->t_self, block, i + 1);
		header->t_infomask &= ~HEAP_XACT_MASK;
		header->t_infomask2 &= ~HEAP2_XACT_MASK;
		header->t_infomask |= HEAP_XMAX_INVALID;
		HeapTupleHeaderSetXmin(header, xid);
		if (frozen)
			HeapTupleHeaderSetXminFrozen(header);
		HeapTupleHeaderSetCmin(header, cid);
		HeapTupleHeaderSetXmax(header, 0);
		header->t_ctid = tuple->t_self;
	}
	memset((char *) page + page->pd_lower, 0, page->pd_upper - page->pd_lower);
}

/*
 * Forgets the rows, which have been inserted, and goes on with this page, whose
 * content does not matter.
 */
void
la_insert_batch_reset(LaInsertBatch *batch, Page page)
{
	for (int i = 0; batch->slots != NULL && i < batch->image.rows &&
		 batch->slots[i] != NULL; i++)
		ExecClearTuple(batch->slots[i]);
	la_insert_image_clear(&batch->image, page);
}

/*
 * May rows of a table be toasted that are not inserted at once?
 */
bool
la_insert_may_toast(Relation table)
{
	return !RelationIsLogicallyLogged(table);
}

/*
 * Toasts a row of a table; options are those of heap_insert().  Returns a tuple that is there
 * until the next one.
 */
HeapTuple
la_insert_toast(LaInsertBatch *batch, Relation table, TupleTableSlot *row,
				int options)
{
	MemoryContext caller;
	HeapTuple	tuple;

	if (batch->row_context == NULL)
		batch->row_context = AllocSetContextCreate(batch->context,
												   "pg_lookahead insert: row",
												   ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(batch->row_context);
	caller = MemoryContextSwitchTo(batch->row_context);
	tuple = heap_toast_insert_or_update(table, ExecCopySlotHeapTuple(row), NULL,
										options);
	MemoryContextSwitchTo(caller);
	if (MAXALIGN(tuple->t_len) > MaxHeapTupleSize)
		/* mirrors the error of RelationGetBufferForTuple() in hio.c */
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row is too big: size %zu, maximum size %zu",
						(Size) MAXALIGN(tuple->t_len), MaxHeapTupleSize)));
	return tuple;
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

/*
 * Logs a page of the table's main fork, in shared buffers, exclusively locked and in a critical
 * section; or in no buffer, which is InvalidBuffer then.  Returns where the record ends.
 */
XLogRecPtr
la_insert_batch_log_page(Relation table, BlockNumber block, Page page, Buffer buffer)
{
	PGAlignedBlock data;
	xl_heap_multi_insert record;
	int			flags = REGBUF_STANDARD | REGBUF_WILL_INIT;

	record.ntuples = PageGetMaxOffsetNumber(page);
	record.flags = XLH_INSERT_LAST_IN_MULTI;
	if (RelationIsLogicallyLogged(table))
	{
		record.flags |= XLH_INSERT_CONTAINS_NEW_TUPLE;
		flags |= REGBUF_KEEP_DATA;
	}
	XLogBeginInsert();
	XLogRegisterData(&record, SizeOfHeapMultiInsert);
	if (BufferIsValid(buffer))
		XLogRegisterBuffer(HEAP_BLOCK, buffer, flags);
	else
		XLogRegisterBlock(HEAP_BLOCK, &table->rd_locator, MAIN_FORKNUM, block,
						  page, flags);
	XLogRegisterBufData(HEAP_BLOCK, data.data, describe_rows(page, data.data));
	XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
	return XLogInsert(RM_HEAP2_ID, XLOG_HEAP2_MULTI_INSERT | XLOG_HEAP_INIT_PAGE);
}

/*
 * Writes the rows to an empty page, which is exclusively locked, and releases it.
 */
void
la_insert_batch_write(LaInsertBatch *batch, Buffer buffer, CommandId cid)
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
		PageSetLSN(page, la_insert_batch_log_page(table, block, page, buffer));
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buffer);

	CheckForSerializableConflictIn(table, NULL, InvalidBlockNumber);
	RecordPageWithFreeSpace(table, block, room);

	/* A page that core has begun stays the one that it goes on with. */
	if (room >= la_insert_batch_mean(batch))
		RelationSetTargetBlock(table, block);
	pgstat_count_heap_insert(table, batch->image.rows);
}
