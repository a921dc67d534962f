/*-------------------------------------------------------------------------
 *
 * la_build_stream.c
 *	  sorted index entries on their way from one process to another
 *
 * A worker of a parallel build sorts the entries of its share of the table
 * and sends them to the leader through a shared memory queue: first what it
 * found in the table, then batches of records, each of one part of the output
 * (see la_build_output.h), then a batch without records.  A queue that ends
 * before that has lost its worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "miscadmin.h"
#include "storage/ipc.h"

#include "index_build/entries/la_build_record.h"
#include "index_build/parallel/la_build_stream.h"

/*
 * Bytes of a batch.  Arbitrary: large enough for the largest index tuple and
 * to make the cost of a message small for each of its records.
 */
#define BATCH_SIZE (32 * 1024)

typedef struct StreamBatch
{
	int			part;
	char		records[FLEXIBLE_ARRAY_MEMBER];
} StreamBatch;

#define BATCH_HEADER MAXALIGN(offsetof(StreamBatch, records))

typedef struct LaSender
{
	LaOutput	output;			/* first, so that one is the other */
	shm_mq_handle *queue;
	LaRecordKind kind;
	char	   *batch;			/* BATCH_SIZE bytes */
	Size		used;
} LaSender;

/*
 * The other process has gone.  A worker whose leader has failed is being told
 * to end, and just does so; the leader fails with the worker's error, or if
 * there is none with what core says then.
 */
pg_noreturn static void
fail_with_other(void)
{
	if (IsParallelWorker())
		proc_exit(1);
	CHECK_FOR_INTERRUPTS();
	ProcessParallelMessages();
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("lost connection to parallel worker")));
}

static void
send_bytes(LaSender *sender, const void *data, Size size, bool flush)
{
	if (shm_mq_send(sender->queue, size, data, false, flush) != SHM_MQ_SUCCESS)
		fail_with_other();
}

static void
send_batch(LaSender *sender)
{
	if (sender->used > BATCH_HEADER)
		send_bytes(sender, sender->batch, sender->used, false);
	sender->used = BATCH_HEADER;
}

static void
sender_begin_part(LaOutput *output, bool are_null)
{
	LaSender   *sender = (LaSender *) output;

	((StreamBatch *) sender->batch)->part++;
}

static void
sender_add_words(LaOutput *output, const LaRecord *records, int64 count)
{
	LaSender   *sender = (LaSender *) output;

	while (count > 0)
	{
		int64		room = (BATCH_SIZE - sender->used) / sizeof(LaRecord);
		int64		n = Min(count, room);

		memcpy(sender->batch + sender->used, records, n * sizeof(LaRecord));
		sender->used += n * sizeof(LaRecord);
		records += n;
		count -= n;
		if (count > 0)
			send_batch(sender);
	}
}

static void
sender_add_tuple(LaOutput *output, IndexTuple tuple, uint64 word, uint64 place)
{
	LaSender   *sender = (LaSender *) output;
	Size		size = la_build_record_tuple_size(sender->kind, tuple);
	LaRecord   *record;

	if (sender->used + sizeof(LaRecord) + size > BATCH_SIZE)
		send_batch(sender);
	if (sender->used + sizeof(LaRecord) + size > BATCH_SIZE)
		elog(ERROR, "index entry of %zu bytes is too large to be sent", size);
	record = (LaRecord *) (sender->batch + sender->used);
	record->word = word;
	record->place = place;
	la_build_record_copy(la_build_record_tuple(record), tuple, size);
	sender->used += sizeof(LaRecord) + size;
}

static void
sender_end_part(LaOutput *output)
{
	send_batch((LaSender *) output);
}

/*
 * Begins to send.  Returns the place where sorted entries go.  Everything is allocated in the
 * current context.
 */
LaOutput *
la_build_sender_begin(shm_mq_handle *queue, LaRecordKind kind,
					  const LaScanResult *result)
{
	LaSender   *sender = palloc0(sizeof(LaSender));

	sender->output.begin_part = sender_begin_part;
	sender->output.add_words = sender_add_words;
	sender->output.add_tuple = sender_add_tuple;
	sender->output.end_part = sender_end_part;
	sender->queue = queue;
	sender->kind = kind;
	sender->batch = palloc0(BATCH_SIZE);
	sender->used = BATCH_HEADER;
	((StreamBatch *) sender->batch)->part = -1;
	send_bytes(sender, result, sizeof(LaScanResult), true);
	return &sender->output;
}

/*
 * Tells the leader that there is no more.
 */
void
la_build_sender_end(LaOutput *output)
{
	LaSender   *sender = (LaSender *) output;

	((StreamBatch *) sender->batch)->part = LA_STREAM_END;
	send_bytes(sender, sender->batch, BATCH_HEADER, true);
}

/*
 * Waits until the worker has read its share of the table.  False if the
 * worker went without having begun.  la_build_stream_receive() goes to the first
 * entry.
 */
bool
la_build_stream_begin(LaStream *stream, shm_mq_handle *queue, LaRecordKind kind)
{
	Size		size;
	void	   *data;

	stream->queue = queue;
	stream->kind = kind;
	if (shm_mq_receive(queue, &size, &data, false) != SHM_MQ_SUCCESS)
	{
		if (shm_mq_get_sender(shm_mq_get_queue(queue)) != NULL)
			fail_with_other();
		return false;
	}
	Assert(size == sizeof(LaScanResult));
	memcpy(&stream->result, data, sizeof(LaScanResult));
	return true;
}

/*
 * Receives a batch and goes to its first entry.
 */
void
la_build_stream_receive(LaStream *stream)
{
	Size		size;
	void	   *data;

	if (shm_mq_receive(stream->queue, &size, &data, false) != SHM_MQ_SUCCESS)
		fail_with_other();
	stream->part = ((StreamBatch *) data)->part;
	stream->end = (char *) data + size;
	stream->record = stream->part == LA_STREAM_END ? NULL :
		(LaRecord *) ((char *) data + BATCH_HEADER);
}
