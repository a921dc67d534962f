/*-------------------------------------------------------------------------
 *
 * la_build_relay.c
 *	  has another process write pages
 *
 * The process that fills the pages of a new relation fork sends them to a
 * parallel worker of its own through a shared memory queue, and the worker
 * puts them where it has been told, which is its page writer.  Filling one page
 * and writing another then take place at the same time.
 *
 * The worker's WAL records are before the leader's commit record, and are
 * flushed with it.  Should the leader fail, its workers have ended before the
 * file is removed (relies on AbortTransaction() in xact.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "miscadmin.h"
#include "storage/ipc.h"

#include "index_build/parallel/la_build_relay.h"

/* What precedes a page; without a page it ends the relay. */
typedef struct RelayHeader
{
	BlockNumber block;
	uint32		unused;			/* keeps the page aligned */
} RelayHeader;

/* The sending end. */
typedef struct PageRelay
{
	LaPageSink	sink;			/* first, so that one is the other */
	shm_mq_handle *queue;
	MemoryContext context;
	Page		free_page;		/* that has been sent, or NULL */
} PageRelay;

/*
 * The other process has gone.  A worker whose leader has failed is being told
 * to end, and just does so; the leader fails with the worker's error, or if
 * there is none with what core says then.
 */
void
la_relay_lost(void)
{
	if (IsParallelWorker())
		proc_exit(1);
	CHECK_FOR_INTERRUPTS();
	ProcessParallelMessages();
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("lost connection to parallel worker")));
}

static Page
relay_get(LaPageSink *sink)
{
	PageRelay  *relay = (PageRelay *) sink;
	Page		page = relay->free_page;

	relay->free_page = NULL;
	return page != NULL ? page : MemoryContextAlloc(relay->context, BLCKSZ);
}

/*
 * Sends the page.
 */
static void
relay_put(LaPageSink *sink, BlockNumber block, Page page)
{
	PageRelay  *relay = (PageRelay *) sink;
	RelayHeader header = {block, 0};
	shm_mq_iovec parts[] = {
		{(const char *) &header, sizeof(header)},
		{(const char *) page, BLCKSZ}
	};

	if (shm_mq_sendv(relay->queue, parts, lengthof(parts), false, false) !=
		SHM_MQ_SUCCESS)
		la_relay_lost();
	if (relay->free_page == NULL)
		relay->free_page = page;
	else
		pfree(page);
}

/*
 * Tells the worker that this was all.  The fork is durable when the worker
 * has ended.
 */
static void
relay_end(LaPageSink *sink)
{
	PageRelay  *relay = (PageRelay *) sink;
	RelayHeader header = {InvalidBlockNumber, 0};

	if (shm_mq_send(relay->queue, sizeof(header), &header, false, true) !=
		SHM_MQ_SUCCESS)
		la_relay_lost();
}

/*
 * Starts to send pages, in the current context.
 */
LaPageSink *
la_relay_begin(shm_mq_handle *queue)
{
	PageRelay  *relay = palloc0(sizeof(PageRelay));

	relay->sink.get = relay_get;
	relay->sink.put = relay_put;
	relay->sink.end = relay_end;
	relay->queue = queue;
	relay->context = CurrentMemoryContext;
	return &relay->sink;
}

/*
 * In the worker: puts the pages that come.  A leader that goes without
 * saying so has failed, and its file will be removed.
 */
void
la_relay_serve(shm_mq_handle *queue, LaPageSink *pages)
{
	Size		size;
	void	   *data;

	while (shm_mq_receive(queue, &size, &data, false) == SHM_MQ_SUCCESS)
	{
		Page		page;

		if (size == sizeof(RelayHeader))
		{
			pages->end(pages);
			return;
		}
		Assert(size == sizeof(RelayHeader) + BLCKSZ);
		page = pages->get(pages);
		memcpy(page, (char *) data + sizeof(RelayHeader), BLCKSZ);
		pages->put(pages, ((RelayHeader *) data)->block, page);
	}
}
