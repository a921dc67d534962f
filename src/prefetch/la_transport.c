/*-------------------------------------------------------------------------
 *
 * la_transport.c
 *	  ways to have pages read before they are needed
 *
 * - Advice: posix_fadvise() tells the kernel which pages are coming, and each
 *   is read on its turn, by the backend itself, from the OS page cache.  Faster
 *   than asynchronous reads under every io_method (docs/benchmarks.md): with
 *   worker, each page would be handed to another process and back; with
 *   io_uring, completing a buffered read costs more than copying the page; with
 *   sync, a read stream gives advice itself, but not where a tablespace sets
 *   effective_io_concurrency to 0.
 * - Asynchronous reads, by a read stream: the only way with direct I/O, or
 *   where there is no posix_fadvise().
 *
 * The distance of advice is controlled like that of a read stream
 * (src/backend/storage/aio/read_stream.c): it starts at 1, doubles with each
 * page used while pages ahead are not in shared buffers, and shrinks by one
 * when as many pages as the distance were used without that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/aio.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"

#include "prefetch/la_transport.h"

/*
 * The way to be used by a scan that starts now.  Depends on settings that only
 * a restart of the server changes.
 */
LaTransport
la_transport_choose(void)
{
#ifdef USE_PREFETCH
	if ((io_direct_flags & IO_DIRECT_DATA) == 0)
		return LA_TRANSPORT_ADVICE;
#endif
	return LA_TRANSPORT_STREAM;
}

/*
 * As EXPLAIN shows it.
 */
const char *
la_transport_name(LaTransport transport)
{
	return transport == LA_TRANSPORT_ADVICE ? "advice" : "stream";
}

/*
 * Begins to give advice for a scan that keeps at most max_distance pages
 * advised and unused.
 */
void
la_advice_start(LaAdvice *advice, uint32 max_distance)
{
	advice->distance = 1;
	advice->max_distance = max_distance;
	advice->hits = 0;
	advice->missed = false;
}

/*
 * To be called each time a page is about to be used: adapts the distance to
 * what the advice since the last call has found.
 */
void
la_advice_adapt(LaAdvice *advice)
{
	if (advice->missed)
	{
		advice->distance = Min(advice->distance * 2, advice->max_distance);
		advice->missed = false;
		advice->hits = 0;
	}
	else if (++advice->hits >= advice->distance && advice->distance > 1)
	{
		advice->distance--;
		advice->hits = 0;
	}
}

/*
 * Asks for a page that is coming.  Returns true if the kernel was asked: the
 * page is not in shared buffers.
 */
bool
la_advice_give(LaAdvice *advice, Relation relation, BlockNumber block)
{
	if (!PrefetchBuffer(relation, MAIN_FORKNUM, block).initiated_io)
		return false;
	advice->missed = true;
	return true;
}
