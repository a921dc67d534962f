/*-------------------------------------------------------------------------
 *
 * la_page_relay.c
 *	  has another process write pages
 *
 * The process that fills the pages of a new relation fork sends them to a
 * parallel worker of its own through a shared memory queue, and the worker
 * logs and writes them by its page writer.  Filling one page and writing
 * another then take place at the same time.
 *
 * The worker's WAL records are before the leader's commit record, and are
 * flushed with it.  Should the leader fail, its workers have ended before the
 * file is removed (AbortTransaction()).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "miscadmin.h"
#include "storage/ipc.h"

#include "bulk_write/la_page_relay.h"
#include "bulk_write/la_page_writer.h"

/* What precedes a page; without a page it ends the relay. */
typedef struct RelayHeader
{
	BlockNumber block;
	uint32		unused;			/* keeps the page aligned */
} RelayHeader;

/*
 * Sends a page, which the caller keeps.
 */
void
la_relay_put(shm_mq_handle *queue, BlockNumber block, Page page)
{
	RelayHeader header = {block, 0};
	shm_mq_iovec parts[] = {
		{(const char *) &header, sizeof(header)},
		{(const char *) page, BLCKSZ}
	};

	if (shm_mq_sendv(queue, parts, lengthof(parts), false, false) !=
		SHM_MQ_SUCCESS)
		la_relay_lost();
}

/*
 * Tells the worker that this was all.  The fork is durable when the worker
 * has ended.
 */
void
la_relay_end(shm_mq_handle *queue)
{
	RelayHeader header = {InvalidBlockNumber, 0};

	if (shm_mq_send(queue, sizeof(header), &header, false, true) !=
		SHM_MQ_SUCCESS)
		la_relay_lost();
}

/*
 * In the worker: writes the pages that come.  A leader that goes without
 * saying so has failed, and its file will be removed.
 */
void
la_relay_serve(shm_mq_handle *queue, Relation rel, int step_blocks,
			   int batch_blocks)
{
	LaPageWriter *writer = la_page_writer_begin(rel, step_blocks, batch_blocks);
	Size		size;
	void	   *data;

	while (shm_mq_receive(queue, &size, &data, false) == SHM_MQ_SUCCESS)
	{
		Page		page;

		if (size == sizeof(RelayHeader))
		{
			la_page_writer_end(writer);
			return;
		}
		Assert(size == sizeof(RelayHeader) + BLCKSZ);
		page = la_page_writer_get(writer);
		memcpy(page, (char *) data + sizeof(RelayHeader), BLCKSZ);
		la_page_writer_put(writer, ((RelayHeader *) data)->block, page);
	}
}

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
