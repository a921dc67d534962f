/*-------------------------------------------------------------------------
 *
 * la_page_writer.c
 *	  writes the pages of a new relation fork in bulk
 *
 * Does what core's storage/smgr/bulk_write.c does, with larger requests.
 * Finished pages are WAL-logged in records of as many pages as a record
 * holds, while they are still in the processor's cache, and kept until there
 * is a batch of them.  For a batch the file is extended to its new end by one
 * request and the pages are written by vectored writes, where core makes one
 * 8 kB write for each page.
 *
 * Only for a fork that nobody else can see: pages go around the buffer
 * manager.  That is so for the file of an index being built, because the
 * transaction that created it has not committed and holds the lock.
 *
 * Blocks may be put in any order, each once.  A block that is passed by and
 * written later is a hole of zeroes in between, as with core.
 *
 * With a step of 0 the file grows page by page, exactly as core does it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "access/xlogrecord.h"
#include "common/int.h"
#include "port/pg_iovec.h"
#include "storage/proc.h"
#include "storage/smgr.h"
#include "utils/injection_point.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "bulk_write/la_page_relay.h"
#include "bulk_write/la_page_writer.h"

/* Most pages that one WAL record can carry; core's bulk_write.c uses it too. */
#define WAL_RECORD_PAGES XLR_MAX_BLOCK_ID

/*
 * Batches up to this size are written as core does it: to extend a file by a
 * few blocks, smgrzeroextend() writes zeroes.
 */
#define SMALL_BATCH 8

typedef struct PendingPage
{
	BlockNumber block;
	Page		page;
} PendingPage;

struct LaPageWriter
{
	shm_mq_handle *relay;		/* to the process that writes, or NULL: we */
	SMgrRelation smgr;
	bool		use_wal;
	int			step_blocks;	/* 0: extend page by page, as core */
	int			batch_blocks;
	BlockNumber file_blocks;	/* length of the file */
	XLogRecPtr	start_redo;		/* redo pointer when we began */
	MemoryContext context;

	int			room;			/* of the arrays, at most batch_blocks */
	int			npending;
	int			nlogged;		/* of them, the first ones */
	PendingPage *pending;
	int			nfree;
	Page	   *free_pages;
};

static void double_room(LaPageWriter *writer);
static void release_page(LaPageWriter *writer, Page page);
static void flush_batch(LaPageWriter *writer);
static void log_pages(LaPageWriter *writer);
static void extend_page_by_page(LaPageWriter *writer);
static void extend_at_once(LaPageWriter *writer);
static void write_run(LaPageWriter *writer, int first, int count);
static void make_durable(LaPageWriter *writer);

/*
 * Starts to write the main fork of rel.  step_blocks is the most blocks by
 * which the file grows at once, batch_blocks how many finished pages are kept
 * before they are written.  Everything is allocated in the current context.
 */
LaPageWriter *
la_page_writer_begin(Relation rel, int step_blocks, int batch_blocks)
{
	LaPageWriter *writer = palloc0(sizeof(LaPageWriter));

	writer->smgr = RelationGetSmgr(rel);
	writer->use_wal = RelationNeedsWAL(rel);
	writer->step_blocks = step_blocks;
	writer->batch_blocks = Max(batch_blocks, WAL_RECORD_PAGES);
	writer->file_blocks = smgrnblocks(writer->smgr, MAIN_FORKNUM);
	writer->start_redo = GetRedoRecPtr();
	writer->context = CurrentMemoryContext;
	writer->room = WAL_RECORD_PAGES;
	writer->pending = palloc(writer->room * sizeof(PendingPage));
	writer->free_pages = palloc(writer->room * sizeof(Page));
	return writer;
}

/*
 * The same for pages that another process logs and writes, see
 * la_page_relay.c.
 */
LaPageWriter *
la_page_writer_begin_relay(shm_mq_handle *relay)
{
	LaPageWriter *writer = palloc0(sizeof(LaPageWriter));

	writer->relay = relay;
	writer->batch_blocks = writer->room = 1;
	writer->context = CurrentMemoryContext;
	writer->free_pages = palloc(sizeof(Page));
	return writer;
}

/*
 * A page to fill.  Its content is undefined; it belongs to the caller until
 * it is given back by la_page_writer_put().
 */
Page
la_page_writer_get(LaPageWriter *writer)
{
	if (writer->nfree > 0)
		return writer->free_pages[--writer->nfree];
	return MemoryContextAllocAligned(writer->context, BLCKSZ,
									 PG_IO_ALIGN_SIZE, 0);
}

/*
 * Takes a finished page, of standard layout, and writes it sooner or later.
 */
void
la_page_writer_put(LaPageWriter *writer, BlockNumber block, Page page)
{
	PendingPage *pending;

	if (writer->relay != NULL)
	{
		la_relay_put(writer->relay, block, page);
		release_page(writer, page);
		return;
	}
	if (writer->npending == writer->room)
		double_room(writer);
	pending = &writer->pending[writer->npending++];
	pending->block = block;
	pending->page = page;
	if (writer->npending - writer->nlogged == WAL_RECORD_PAGES)
		log_pages(writer);
	if (writer->npending == writer->batch_blocks)
		flush_batch(writer);
}

/*
 * Makes room for more pages of a batch: a small index never needs it.
 */
static void
double_room(LaPageWriter *writer)
{
	writer->room = Min(2 * writer->room, writer->batch_blocks);
	writer->pending = repalloc(writer->pending,
							   writer->room * sizeof(PendingPage));
	writer->free_pages = repalloc(writer->free_pages,
								  writer->room * sizeof(Page));
}

/*
 * Writes what is left and makes the fork durable as core would; when pages
 * are relayed, that is so once the other process has ended.
 */
void
la_page_writer_end(LaPageWriter *writer)
{
	if (writer->relay != NULL)
	{
		la_relay_end(writer->relay);
		return;
	}
	flush_batch(writer);
	INJECTION_POINT("pg-lookahead-pages-written", NULL);
	make_durable(writer);
}

/*
 * Keeps a page for la_page_writer_get(), or frees it.
 */
static void
release_page(LaPageWriter *writer, Page page)
{
	if (writer->nfree < writer->room)
		writer->free_pages[writer->nfree++] = page;
	else
		pfree(page);
}

static int
compare_pending(const void *a, const void *b)
{
	return pg_cmp_u32(((const PendingPage *) a)->block,
					  ((const PendingPage *) b)->block);
}

/*
 * Logs the rest of the pending pages, and writes them all.
 */
static void
flush_batch(LaPageWriter *writer)
{
	if (writer->npending == 0)
		return;

	log_pages(writer);
	INJECTION_POINT("pg-lookahead-pages-logged", NULL);
	qsort(writer->pending, writer->npending, sizeof(PendingPage),
		  compare_pending);
	if (writer->step_blocks == 0 || writer->npending <= SMALL_BATCH)
		extend_page_by_page(writer);
	else
		extend_at_once(writer);

	for (int i = 0; i < writer->npending; i++)
		release_page(writer, writer->pending[i].page);
	writer->npending = writer->nlogged = 0;
}

/*
 * Logs the pages that are not logged yet, at most as many as one record
 * carries, and sets their checksums.  The WAL writer is told of each full record,
 * and writes and syncs the WAL meanwhile; otherwise this process would have to
 * whenever WAL buffers are full, and wait for the disk at the end of each WAL
 * file.
 */
static void
log_pages(LaPageWriter *writer)
{
	PendingPage *pending = writer->pending + writer->nlogged;
	int			count = writer->npending - writer->nlogged;
	BlockNumber blocks[WAL_RECORD_PAGES];
	Page		pages[WAL_RECORD_PAGES];

	qsort(pending, count, sizeof(PendingPage), compare_pending);
	for (int i = 0; i < count; i++)
	{
		blocks[i] = pending[i].block;
		pages[i] = pending[i].page;
	}
	if (writer->use_wal && count > 0)
	{
		log_newpages(&writer->smgr->smgr_rlocator.locator, MAIN_FORKNUM,
					 count, blocks, pages, true);
		if (count == WAL_RECORD_PAGES)
			XLogSetAsyncXactLSN(PageGetLSN(pages[0]));
	}
	for (int i = 0; i < count; i++)
		PageSetChecksumInplace(pages[i], blocks[i]);
	writer->nlogged = writer->npending;
}

/*
 * Writes the batch as core's smgr_bulk_flush() does: page by page, a hole
 * filled with zeroes.
 */
static void
extend_page_by_page(LaPageWriter *writer)
{
	static const PGIOAlignedBlock zeroes = {0};

	for (int i = 0; i < writer->npending; i++)
	{
		BlockNumber block = writer->pending[i].block;

		while (writer->file_blocks < block)
			smgrextend(writer->smgr, MAIN_FORKNUM, writer->file_blocks++,
					   zeroes.data, true);
		if (block == writer->file_blocks)
			smgrextend(writer->smgr, MAIN_FORKNUM, writer->file_blocks++,
					   writer->pending[i].page, true);
		else
			smgrwrite(writer->smgr, MAIN_FORKNUM, block,
					  writer->pending[i].page, true);
	}
}

/*
 * Extends the file to the end of the batch, in steps of at most step_blocks,
 * and writes the runs of adjacent blocks.
 */
static void
extend_at_once(LaPageWriter *writer)
{
	BlockNumber end = writer->pending[writer->npending - 1].block + 1;
	int			first = 0;

	while (writer->file_blocks < end)
	{
		int			step = Min(end - writer->file_blocks, writer->step_blocks);

		smgrzeroextend(writer->smgr, MAIN_FORKNUM, writer->file_blocks, step,
					   true);
		writer->file_blocks += step;
	}

	for (int i = 1; i <= writer->npending; i++)
	{
		if (i < writer->npending &&
			writer->pending[i].block == writer->pending[i - 1].block + 1)
			continue;
		write_run(writer, first, i - first);
		first = i;
	}
}

/*
 * Writes adjacent blocks: `count` pending pages from `first`.  One request
 * must not cross the end of a segment of the file.
 */
static void
write_run(LaPageWriter *writer, int first, int count)
{
	const void *pages[PG_IOV_MAX];

	while (count > 0)
	{
		BlockNumber block = writer->pending[first].block;
		int			most = smgrmaxcombine(writer->smgr, MAIN_FORKNUM, block);
		int			n = Min(count, Min(most, PG_IOV_MAX));

		for (int i = 0; i < n; i++)
			pages[i] = writer->pending[first + i].page;
		smgrwritev(writer->smgr, MAIN_FORKNUM, block, pages, n, true);
		first += n;
		count -= n;
	}
}

/*
 * Sees to it that the pages reach the disk in time; the rules, and the
 * reasons for them, are those of core's smgr_bulk_finish().  All writes were
 * made with skipFsync, so the fork is registered with the checkpointer here,
 * or, if a checkpoint began since we started and has therefore missed early
 * writes whose WAL it makes unnecessary to replay, synced at once.
 */
static void
make_durable(LaPageWriter *writer)
{
	if (SmgrIsTemp(writer->smgr))
		return;
	if (!writer->use_wal)
	{
		smgrregistersync(writer->smgr, MAIN_FORKNUM);
		return;
	}

	Assert((MyProc->delayChkptFlags & DELAY_CHKPT_START) == 0);
	MyProc->delayChkptFlags |= DELAY_CHKPT_START;
	if (writer->start_redo == GetRedoRecPtr())
	{
		smgrregistersync(writer->smgr, MAIN_FORKNUM);
		MyProc->delayChkptFlags &= ~DELAY_CHKPT_START;
	}
	else
	{
		MyProc->delayChkptFlags &= ~DELAY_CHKPT_START;
		smgrimmedsync(writer->smgr, MAIN_FORKNUM);
	}
}
