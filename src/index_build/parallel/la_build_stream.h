/*-------------------------------------------------------------------------
 *
 * la_build_stream.h
 *	  sorted index entries on their way from one process to another
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_STREAM_H
#define LA_BUILD_STREAM_H

#include "storage/shm_mq.h"

#include "index_build/entries/la_build_output.h"
#include "la_reason.h"

/* What a worker found in its share of the table. */
typedef struct LaScanResult
{
	double		live_rows;
	int64		entries;
	bool		broken_hot_chain;
	LaReason	reason;			/* why core has to build the index */
} LaScanResult;

/* Part of a stream that has ended; before, it is 0 or 1. */
#define LA_STREAM_END 2

/* The receiving end. */
typedef struct LaStream
{
	shm_mq_handle *queue;
	LaRecordKind kind;
	LaScanResult result;

	/* The first entry that has not been taken; NULL at the end. */
	int			part;
	LaRecord   *record;
	char	   *end;			/* of the batch in which it is */
} LaStream;

extern LaOutput *la_build_sender_begin(shm_mq_handle *queue, LaRecordKind kind,
									   const LaScanResult *result);
extern void la_build_sender_end(LaOutput *output);
extern bool la_build_stream_begin(LaStream *stream, shm_mq_handle *queue,
								  LaRecordKind kind);
extern void la_build_stream_receive(LaStream *stream);

/*
 * Goes to the next entry.  The one before is no longer valid.
 */
static inline void
la_build_stream_next(LaStream *stream)
{
	char	   *next = (char *) stream->record +
		la_build_record_size(stream->kind, stream->record);

	stream->record = (LaRecord *) next;
	if (next == stream->end)
		la_build_stream_receive(stream);
}

#endif							/* LA_BUILD_STREAM_H */
