/*-------------------------------------------------------------------------
 *
 * la_evict.c
 *	  pg_lookahead_evict(): takes a relation out of both caches
 *
 * For experiments with cold data on a running server.  A relation leaves
 * shared buffers first, dirty pages being written; then its files are
 * flushed, because the kernel keeps pages that it has yet to write; then the
 * kernel is asked to forget them.  What could not be evicted (pages that
 * somebody has pinned, pages that are read again meanwhile) is reported, not
 * fought over: the caller sees whether the relation is cold.
 *
 * Only an AccessShareLock is held, as by a scan.  It keeps away whoever would
 * replace, truncate or drop the files.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "storage/smgr.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/wait_event.h"

#include "la_sql_function.h"

#define EVICT_COLUMNS 6

/*
 * Bytes of a file that are looked at together for pages in the cache: a
 * vector of 16 kB with pages of 4 kB.  Arbitrary.
 */
#define RESIDENCY_WINDOW (64 * 1024 * 1024)

/* What was done, summed over relations. */
typedef struct LaEviction
{
	int64		relations;
	int64		evicted;		/* buffers */
	int64		flushed;		/* of these, dirty */
	int64		skipped;		/* buffers in use */
	int64		bytes;			/* size of the files */
	int64		cached;			/* of these, still in the kernel's cache */
} LaEviction;

PG_FUNCTION_INFO_V1(pg_lookahead_evict);

#if defined(USE_POSIX_FADVISE) && defined(POSIX_FADV_DONTNEED)
#define CAN_EVICT
#endif

#ifdef CAN_EVICT

/*
 * Refuses relations that have no files, and those whose pages are in the
 * local buffers of a session, which the others cannot reach.
 */
static void
check_relation(Relation relation)
{
	const char *name = RelationGetRelationName(relation);
	char		kind = relation->rd_rel->relkind;

	if (!RELKIND_HAS_STORAGE(kind))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot evict relation \"%s\"", name),
				 errdetail_relkind_not_supported(kind),
				 RELKIND_HAS_PARTITIONS(kind)
				 ? errhint("Evict its partitions: SELECT pg_lookahead_evict(relid) FROM pg_partition_tree('...') WHERE isleaf.")
				 : 0));
	if (RELATION_IS_OTHER_TEMP(relation))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot evict temporary relation \"%s\" of another session",
						name)));
	if (RelationUsesLocalBuffers(relation))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot evict temporary relation \"%s\"", name),
				 errdetail("Its pages are in the local buffers of this session.")));
}

/*
 * Has the kernel write a file out.  Not pg_fsync(), which does nothing where
 * the server runs with fsync = off, as the servers of experiments do.  A
 * failure is treated as core does (mirrors mdimmedsync() in md.c): the kernel
 * may have dropped what it could not write, and would not say so a second time.
 */
static void
flush_file(int file, const char *path)
{
	int			status;

	pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_IMMEDIATE_SYNC);
	do
		status = fsync(file);
	while (status < 0 && errno == EINTR);
	pgstat_report_wait_end();
	if (status < 0)
		ereport(data_sync_elevel(ERROR),
				(errcode_for_file_access(),
				 errmsg("could not fsync file \"%s\": %m", path)));
}

/*
 * How much of a part of a file is in the kernel's cache, in whole pages of
 * that.  The mapping touches no page, so it reads none.
 */
static int64
cached_in_window(int file, int64 offset, int64 length)
{
	long		page_size = sysconf(_SC_PAGESIZE);
	size_t		pages = (length + page_size - 1) / page_size;
	unsigned char *resident = palloc(pages);
	void	   *address = mmap(NULL, length, PROT_READ, MAP_SHARED, file, offset);
	int64		cached = 0;
	int			error = 0;

	if (address == MAP_FAILED)
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("could not map a data file: %m")));
	if (mincore(address, length, (void *) resident) != 0)
		error = errno;
	munmap(address, length);
	errno = error;
	if (error != 0)
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("could not determine which pages are cached: %m")));

	for (size_t i = 0; i < pages; i++)
	{
		if (resident[i] & 1)
			cached += page_size;
	}
	pfree(resident);
	return cached;
}

/*
 * How much of a file is in the kernel's cache.
 */
static int64
cached_bytes(int file, int64 size)
{
	int64		cached = 0;

	for (int64 offset = 0; offset < size; offset += RESIDENCY_WINDOW)
	{
		CHECK_FOR_INTERRUPTS();
		cached += cached_in_window(file, offset,
								   Min(size - offset, RESIDENCY_WINDOW));
	}
	return cached;
}

/*
 * Has the kernel forget a file.  Returns its size, -1 when there is no such
 * file, and how much of it is in the kernel's cache afterwards.
 */
static int64
forget_file(const char *path, int64 *cached)
{
	struct stat status;
	int			error;
	int			file;

	CHECK_FOR_INTERRUPTS();
	file = OpenTransientFile(path, O_RDWR | PG_BINARY);
	if (file < 0 && errno == ENOENT)
		return -1;
	if (file < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", path)));
	if (fstat(file, &status) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not stat file \"%s\": %m", path)));
	flush_file(file, path);
	error = posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	if (error != 0)
	{
		errno = error;
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not evict file \"%s\" from the cache: %m", path)));
	}
	*cached = cached_bytes(file, status.st_size);
	if (CloseTransientFile(file) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not close file \"%s\": %m", path)));
	return status.st_size;
}

/*
 * Has the kernel forget a fork, file by file.  Mirrors _mdfd_segpath() in md.c,
 * which names them.
 */
static void
forget_fork(Relation relation, ForkNumber fork, LaEviction *done)
{
	RelPathStr	first = relpath(RelationGetSmgr(relation)->smgr_rlocator, fork);
	int64		size;
	int64		cached;

	for (BlockNumber segment = 0;; segment++)
	{
		char	   *path = segment == 0 ? pstrdup(first.str)
			: psprintf("%s.%u", first.str, segment);

		size = forget_file(path, &cached);
		pfree(path);
		if (size < 0)
			break;
		done->bytes += size;
		done->cached += cached;
	}
}

/*
 * Evicts one relation, all its forks, in the order explained on top.
 */
static void
evict_relation(Relation relation, LaEviction *done)
{
	int32		evicted;
	int32		flushed;
	int32		skipped;

	EvictRelUnpinnedBuffers(relation, &evicted, &flushed, &skipped);
	done->relations++;
	done->evicted += evicted;
	done->flushed += flushed;
	done->skipped += skipped;

	for (ForkNumber fork = 0; fork <= MAX_FORKNUM; fork++)
	{
		if (!smgrexists(RelationGetSmgr(relation), fork))
			continue;
		forget_fork(relation, fork, done);
	}
}

/*
 * Evicts a relation together with its TOAST table and that table's indexes:
 * who reads the one reads the other, and cannot name it easily.
 */
static void
evict_with_toast(Relation relation, LaEviction *done)
{
	Relation	toast;
	ListCell   *lc;

	evict_relation(relation, done);
	if (!OidIsValid(relation->rd_rel->reltoastrelid))
		return;

	toast = table_open(relation->rd_rel->reltoastrelid, AccessShareLock);
	evict_relation(toast, done);
	foreach(lc, RelationGetIndexList(toast))
	{
		Relation	index = relation_open(lfirst_oid(lc), AccessShareLock);

		evict_relation(index, done);
		relation_close(index, AccessShareLock);
	}
	table_close(toast, AccessShareLock);
}

#endif							/* CAN_EVICT */

/*
 * SQL function pg_lookahead_evict(regclass).
 */
Datum
pg_lookahead_evict(PG_FUNCTION_ARGS)
{
	TupleDesc	descriptor;
	Datum		values[EVICT_COLUMNS];
	bool		nulls[EVICT_COLUMNS] = {0};
	LaEviction	done = {0};
	int			i = 0;
#ifdef CAN_EVICT
	Relation	relation;
#endif

	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to use %s()",
						"pg_lookahead_evict")));
	descriptor = la_sql_function_row(fcinfo, EVICT_COLUMNS);

#ifdef CAN_EVICT
	relation = relation_open(PG_GETARG_OID(0), AccessShareLock);
	check_relation(relation);
	evict_with_toast(relation, &done);
	relation_close(relation, AccessShareLock);
#else
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("pg_lookahead_evict is not supported on this platform"),
			 errdetail("It has no %s.", "POSIX_FADV_DONTNEED")));
#endif

	values[i++] = Int64GetDatum(done.relations);
	values[i++] = Int64GetDatum(done.evicted);
	values[i++] = Int64GetDatum(done.flushed);
	values[i++] = Int64GetDatum(done.skipped);
	values[i++] = Int64GetDatum(done.bytes);
	values[i++] = Int64GetDatum(done.cached);
	Assert(i == EVICT_COLUMNS);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(descriptor, values,
													  nulls)));
}
