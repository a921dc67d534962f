/*-------------------------------------------------------------------------
 *
 * la_page_writer.c
 *	  writes new pages of a relation fork in bulk
 *
 * Does what core's bulk writer does, with larger requests.
 * Finished pages are kept until there is a batch of them.  For a batch the
 * file is extended to its new end by one request; the pages are WAL-logged, in
 * records of as many pages as a record holds, and written by vectored writes,
 * where core makes one 8 kB write for each page.
 *
 * Pages are logged and written in one step, which every checkpoint waits for
 * (see log_and_write()).  Otherwise a base backup could lose them: it does not
 * replay a record from before its redo point, and has zeroes where it copied
 * the file before the pages were written.  As it is, zeroes in a backup are
 * places whose pages are logged after its redo point, or never, if the build
 * fails.
 *
 * Only for a fork that nobody else reads: pages go around the buffer manager.
 * That is so for the file of an index being built, because the transaction
 * that created it has not committed and holds the lock, or because the index is
 * not ready (CONCURRENTLY); and for those pages of a table that are appended to
 * a file which the transaction has made.
 *
 * This process may scan such a table between two pages that are put, so its file is never
 * left longer than what has been written: a scan would have empty pages in shared
 * buffers instead of those that are written later.  Nobody else may extend it.
 *
 * An index whose build fails goes with its file.  A table to which pages are appended
 * may stay, when only a subtransaction fails, and its file has to be synced with all
 * that was written: so each write is made known to the checkpointer.
 *
 * Blocks may be put in any order, each once.  A block that is passed by and
 * written later is a hole of zeroes in between, as with core.
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

#include "bulk_write/la_page_writer.h"
#include "la_compat.h"

/* Most pages that one WAL record can carry; core's bulk writer uses it too. */
#define WAL_RECORD_PAGES XLR_MAX_BLOCK_ID

/*
 * Batches up to this size are written as core does it: to extend a file by a
 * few blocks, smgrzeroextend() writes zeroes.
 */
#define SMALL_BATCH 8

/*
 * Pages that are logged and written in one step: as many as one vectored write
 * takes, and full WAL records.  A checkpoint waits for the end of the step.
 */
#define STEP_PAGES (4 * WAL_RECORD_PAGES)

typedef struct PendingPage
{
	BlockNumber block;
	Page		page;
} PendingPage;

struct LaPageWriter
{
	SMgrRelation smgr;
	bool		use_wal;
	LaLogPage	log_page;		/* NULL: by an image; set where we append */
	void	   *log_arg;
	int			batch_blocks;
	BlockNumber file_blocks;	/* length of the file */
	XLogRecPtr	start_redo;		/* redo pointer when we began */
	MemoryContext context;

	int			room;			/* of the arrays, at most batch_blocks */
	int			npending;
	PendingPage *pending;
	int			nfree;
	Page	   *free_pages;
};

/*
 * Starts to write the main fork of rel.  batch_blocks is how many finished pages
 * are kept before they are written, by as many blocks the file grows at once.
 * Everything is allocated in the current context.
 */
LaPageWriter *
la_page_writer_begin(Relation rel, int batch_blocks)
{
	LaPageWriter *writer = palloc0(sizeof(LaPageWriter));

	writer->smgr = RelationGetSmgr(rel);
	writer->use_wal = RelationNeedsWAL(rel);
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
 * The same for pages that are appended to a fork, each of which is logged by log_page.
 */
LaPageWriter *
la_page_writer_append(Relation rel, int batch_blocks, LaLogPage log_page,
					  void *arg)
{
	LaPageWriter *writer = la_page_writer_begin(rel, batch_blocks);

	writer->log_page = log_page;
	writer->log_arg = arg;
	return writer;
}

/*
 * Are pages appended to a fork that may outlive an error?  Then each write is made known
 * to the checkpointer; otherwise the fork is made durable at the end.
 */
static bool
appends(const LaPageWriter *writer)
{
	return writer->log_page != NULL;
}

static int
compare_pending(const void *a, const void *b)
{
	return pg_cmp_u32(((const PendingPage *) a)->block,
					  ((const PendingPage *) b)->block);
}

/*
 * Logs pages, as images by one record.  The WAL writer is told of each full record, and
 * writes and syncs the WAL meanwhile; otherwise this process would have to
 * whenever WAL buffers are full, and wait for the disk at the end of each WAL
 * file.
 */
static void
log_pages(LaPageWriter *writer, PendingPage *pages, int count)
{
	BlockNumber blocks[WAL_RECORD_PAGES];
	Page		images[WAL_RECORD_PAGES];

	for (int i = 0; i < count; i++)
	{
		blocks[i] = pages[i].block;
		images[i] = pages[i].page;
		if (writer->log_page != NULL)
			PageSetLSN(images[i], writer->log_page(writer->log_arg, blocks[i],
												   images[i]));
	}
	if (writer->log_page == NULL)
		log_newpages(&writer->smgr->smgr_rlocator.locator, MAIN_FORKNUM, count,
					 blocks, images, true);
	if (count == WAL_RECORD_PAGES)
		XLogSetAsyncXactLSN(PageGetLSN(images[count - 1]));
}

/*
 * Writes pages page by page, a hole filled with zeroes.  Mirrors
 * smgr_bulk_flush() in bulk_write.c.
 */
static void
extend_page_by_page(LaPageWriter *writer, PendingPage *pages, int count)
{
	static const PGIOAlignedBlock zeroes = {0};

	for (int i = 0; i < count; i++)
	{
		BlockNumber block = pages[i].block;

		while (writer->file_blocks < block)
			smgrextend(writer->smgr, MAIN_FORKNUM, writer->file_blocks++,
					   zeroes.data, !appends(writer));
		if (block == writer->file_blocks)
			smgrextend(writer->smgr, MAIN_FORKNUM, writer->file_blocks++,
					   pages[i].page, !appends(writer));
		else
			smgrwrite(writer->smgr, MAIN_FORKNUM, block, pages[i].page,
					  !appends(writer));
	}
}

/*
 * Writes pages of adjacent blocks.  One request must not cross the end of a
 * segment of the file.
 */
static void
write_run(LaPageWriter *writer, PendingPage *pages, int count)
{
	const void *images[PG_IOV_MAX];

	while (count > 0)
	{
		BlockNumber block = pages->block;
		int			most = smgrmaxcombine(writer->smgr, MAIN_FORKNUM, block);
		int			n = Min(count, Min(most, PG_IOV_MAX));

		for (int i = 0; i < n; i++)
			images[i] = pages[i].page;
		smgrwritev(writer->smgr, MAIN_FORKNUM, block, images, n,
				   !appends(writer));
		pages += n;
		count -= n;
	}
}

/*
 * Writes pages, which are in the order of their blocks, and extends the file
 * where write_step() has not done it.
 */
static void
write_pages(LaPageWriter *writer, PendingPage *pages, int count)
{
	int			first = 0;

	for (int i = 0; i < count; i++)
		la_compat_set_checksum(pages[i].page, pages[i].block);
	if (pages[count - 1].block >= writer->file_blocks)
	{
		extend_page_by_page(writer, pages, count);
		return;
	}
	for (int i = 1; i <= count; i++)
	{
		if (i < count && pages[i].block == pages[i - 1].block + 1)
			continue;
		write_run(writer, pages + first, i - first);
		first = i;
	}
}

/*
 * Logs the first pending pages and writes them.  If the redo point of a
 * checkpoint comes after their records, it is completed only when they are in
 * the file, and a backup that asked for it copies the file after that.  Core's
 * bulk writer does not go so far; it writes the pages of each record at once.
 * Reads PGPROC of proc.h; relies on GetVirtualXIDsDelayingChkpt() in procarray.c.
 *
 * Nothing here waits for anything but the disk, nor checks for interrupts.  An
 * error, such as a full disk, may end a subtransaction only: then nobody else
 * clears the flag, and all checkpoints would wait until the transaction ends.
 */
static void
log_and_write(LaPageWriter *writer, int count)
{
	PendingPage *pages = writer->pending;

	if (!writer->use_wal)
	{
		write_pages(writer, pages, count);
		return;
	}

	Assert((MyProc->delayChkptFlags & DELAY_CHKPT_START) == 0);
	MyProc->delayChkptFlags |= DELAY_CHKPT_START;
	PG_TRY();
	{
		for (int i = 0; i < count; i += WAL_RECORD_PAGES)
			log_pages(writer, pages + i, Min(WAL_RECORD_PAGES, count - i));
		INJECTION_POINT("pg-lookahead-pages-logged", NULL);
		write_pages(writer, pages, count);
	}
	PG_FINALLY();
	{
		MyProc->delayChkptFlags &= ~DELAY_CHKPT_START;
	}
	PG_END_TRY();
}

/*
 * Writes those of the pending pages that come first in the file, at most
 * STEP_PAGES.  When the file has to grow, it grows for all that are pending:
 * so it does by large requests, while WAL comes in portions that the WAL
 * writer can keep pace with.
 */
static void
write_step(LaPageWriter *writer)
{
	PendingPage *pending = writer->pending;
	int			npending = writer->npending;
	int			count = Min(npending, STEP_PAGES);

	INJECTION_POINT("pg-lookahead-pages-collected", NULL);
	if (appends(writer) &&
		smgrnblocks(writer->smgr, MAIN_FORKNUM) != writer->file_blocks)
		elog(ERROR, "a file was extended while pages were appended to it");
	qsort(pending, npending, sizeof(PendingPage), compare_pending);
	if (pending[count - 1].block >= writer->file_blocks && npending > SMALL_BATCH)
	{
		BlockNumber end = pending[npending - 1].block + 1;

		smgrzeroextend(writer->smgr, MAIN_FORKNUM, writer->file_blocks,
					   end - writer->file_blocks, !appends(writer));
		writer->file_blocks = end;
	}
	INJECTION_POINT("pg-lookahead-file-extended", NULL);
	log_and_write(writer, count);
	INJECTION_POINT("pg-lookahead-step-written", NULL);

	for (int i = 0; i < count; i++)
	{
		if (writer->nfree < writer->room)
			writer->free_pages[writer->nfree++] = pending[i].page;
		else
			pfree(pending[i].page);
	}

	writer->npending -= count;
	memmove(pending, pending + count, writer->npending * sizeof(PendingPage));
}

/*
 * Writes what has been put.
 */
static void
write_all(LaPageWriter *writer)
{
	while (writer->npending > 0)
		write_step(writer);
}

/*
 * A page to fill.  Its content is undefined; it belongs to the caller until it is put.
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

	if (writer->npending == writer->room)
	{
		/* a small index never needs it */
		writer->room = Min(2 * writer->room, writer->batch_blocks);
		writer->pending = repalloc(writer->pending,
								   writer->room * sizeof(PendingPage));
		writer->free_pages = repalloc(writer->free_pages,
									  writer->room * sizeof(Page));
	}

	pending = &writer->pending[writer->npending++];
	pending->block = block;
	pending->page = page;
	if (writer->npending < writer->batch_blocks)
		return;
	if (appends(writer))
		write_all(writer);
	else
		write_step(writer);
}

/*
 * Sees to it that the pages reach the disk in time.  Of appended pages the checkpointer
 * has been told with each write.  Where pages are not appended, writes were made with
 * skipFsync: so the fork is registered with the checkpointer here, or, if a checkpoint
 * has begun since we started, synced at once: it has missed early writes, whose WAL need
 * not be replayed once it is complete.  Mirrors smgr_bulk_finish() in bulk_write.c, which
 * gives the reasons.
 */
static void
make_durable(LaPageWriter *writer)
{
	if (SmgrIsTemp(writer->smgr) || appends(writer))
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

/*
 * Writes what is left and makes the fork durable as core would.
 */
void
la_page_writer_end(LaPageWriter *writer)
{
	write_all(writer);
	INJECTION_POINT("pg-lookahead-pages-written", NULL);
	make_durable(writer);
	INJECTION_POINT("pg-lookahead-pages-durable", NULL);
}
