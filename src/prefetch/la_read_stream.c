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

static void set_limits(int concurrency, int maintenance);
static int	kind_of_stream(Relation relation, int max_ios);

/*
 * Begins a stream of a relation's main fork with at most max_ios reads in
 * flight (0: each is made by the process itself, when its page is needed).
 * Allocates in the current memory context.
 */
ReadStream *
la_read_stream_begin(int flags, BufferAccessStrategy strategy, Relation relation,
					 ReadStreamBlockNumberCB callback, void *callback_private_data,
					 size_t per_buffer_data_size, int max_ios)
{
	int			saved_concurrency = effective_io_concurrency;
	int			saved_maintenance = maintenance_io_concurrency;
	ReadStream *stream;

	PG_TRY();
	{
		set_limits(max_ios, max_ios);
		stream = read_stream_begin_relation(flags | kind_of_stream(relation, max_ios),
											strategy, relation, MAIN_FORKNUM,
											callback, callback_private_data,
											per_buffer_data_size);
	}
	PG_CATCH();
	{
		set_limits(saved_concurrency, saved_maintenance);
		PG_RE_THROW();
	}
	PG_END_TRY();
	set_limits(saved_concurrency, saved_maintenance);
	return stream;
}

static void
set_limits(int concurrency, int maintenance)
{
	effective_io_concurrency = concurrency;
	maintenance_io_concurrency = maintenance;
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
