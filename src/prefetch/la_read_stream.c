/*-------------------------------------------------------------------------
 *
 * la_read_stream.c
 *	  read streams with limits of our own
 *
 * A stream takes its limits from settings when it is created, and keeps them.
 * Options of the tablespace win over the settings, one for ordinary streams and
 * one for those of maintenance; the two kinds differ in nothing else (relies on
 * read_stream_begin_impl() in read_stream.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/spccache.h"

#include "prefetch/la_read_stream.h"

static void set_limits(int concurrency, int maintenance, int combine_limit);
static int	kind_of_stream(Relation relation, int max_ios);

/*
 * Begins a stream of a relation's main fork with at most max_ios reads in
 * flight (0: each is made by the process itself, when its page is needed) of
 * at most combine_limit blocks each.  Allocates in the current memory context.
 */
ReadStream *
la_read_stream_begin(int flags, BufferAccessStrategy strategy, Relation relation,
					 ReadStreamBlockNumberCB callback, void *callback_private_data,
					 size_t per_buffer_data_size, int max_ios, int combine_limit)
{
	int			saved_concurrency = effective_io_concurrency;
	int			saved_maintenance = maintenance_io_concurrency;
	int			saved_combine_limit = io_combine_limit;
	ReadStream *stream;

	PG_TRY();
	{
		set_limits(max_ios, max_ios, combine_limit);
		stream = read_stream_begin_relation(flags | kind_of_stream(relation, max_ios),
											strategy, relation, MAIN_FORKNUM,
											callback, callback_private_data,
											per_buffer_data_size);
	}
	PG_CATCH();
	{
		set_limits(saved_concurrency, saved_maintenance, saved_combine_limit);
		PG_RE_THROW();
	}
	PG_END_TRY();
	set_limits(saved_concurrency, saved_maintenance, saved_combine_limit);
	return stream;
}

static void
set_limits(int concurrency, int maintenance, int combine_limit)
{
	effective_io_concurrency = concurrency;
	maintenance_io_concurrency = maintenance;
	io_combine_limit = combine_limit;
}

/*
 * The kind of stream that obeys our limit, with both settings saying so already.
 * When the tablespace has options of both kinds there is no way round them.
 */
static int
kind_of_stream(Relation relation, int max_ios)
{
	Oid			tablespace = relation->rd_locator.spcOid;

	if (get_tablespace_io_concurrency(tablespace) == max_ios ||
		get_tablespace_maintenance_io_concurrency(tablespace) != max_ios)
		return READ_STREAM_DEFAULT;
	return READ_STREAM_MAINTENANCE;
}
