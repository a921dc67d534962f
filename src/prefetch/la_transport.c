/*-------------------------------------------------------------------------
 *
 * la_transport.c
 *	  ways to have pages read before they are needed
 *
 * - Advice (la_advice.c): posix_fadvise() tells the kernel which pages are
 *   coming, and core reads each on its turn, from the OS page cache.  Faster
 *   than asynchronous reads under every io_method (docs/benchmarks.md): with
 *   worker, each page would be handed to another process and back; with
 *   io_uring, completing a buffered read costs more than copying the page; with
 *   sync, a read stream gives advice itself, but not where a tablespace sets
 *   effective_io_concurrency to 0.
 * - Asynchronous reads, by a read stream: the only way with direct I/O, or
 *   where there is no posix_fadvise().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

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
