/*-------------------------------------------------------------------------
 *
 * la_build_parallel.c
 *	  has parallel workers take part in an index build
 *
 * The parallel context is set up and ended as by core, with as many workers as
 * core would have asked for.  Mirrors _bt_begin_parallel(),
 * _bt_parallel_build_main() and _bt_end_parallel() in nbtsort.c; reads
 * ParallelContext of parallel.h.
 *
 *	  leader: scan, sort  \
 *	  worker 0: scan, sort -> leader: merge, fill pages, WAL, file
 *	  worker 1: scan, sort /
 *
 * All scan the table, each the blocks that nobody else has taken, and sort what
 * they find; the workers send it to the leader in order (la_build_stream.c), which
 * merges it with its own (la_build_merge.c) while it loads the index.
 *
 * Workers that cannot be had are done without: the blocks are taken by those
 * there are.  That also holds for a worker that finds a library of another build
 * in the place of ours.
 *
 * maintenance_work_mem is shared out among the processes, less the queues and the
 * pages that wait to be written.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/parallel.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "executor/instrument.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "bulk_write/la_page_writer.h"
#include "index_build/load/la_build_load.h"
#include "index_build/parallel/la_build_merge.h"
#include "index_build/parallel/la_build_parallel.h"
#include "index_build/parallel/la_build_stream.h"
#include "index_build/scan/la_build_scan.h"
#include "index_build/sort/la_build_drain.h"
#include "la_background.h"
#include "la_compat.h"

/* Keys of the table of contents; those of core begin at its other end. */
#define KEY_SHARED			UINT64CONST(1)
#define KEY_TABLE_SCAN		UINT64CONST(2)
#define KEY_QUEUES			UINT64CONST(3)
#define KEY_QUERY_TEXT		UINT64CONST(4)
#define KEY_WAL_USAGE		UINT64CONST(5)
#define KEY_BUFFER_USAGE	UINT64CONST(6)

/*
 * Bytes of the queue of a worker, at most and at least.  It
 * should hold what the leader loads while another process has the processor,
 * a few milliseconds.
 */
#define QUEUE_SIZE (4 * 1024 * 1024)
#define MIN_QUEUE_SIZE (64 * 1024)

/*
 * Least memory of a process for sorting, in bytes.  Core gives each participant
 * 32 MB, but any amount where the table's parallel_workers says how many there
 * are.  Building an index on 600,000 random numbers or texts of 32 bytes with
 * four workers took 0.65 to 0.7 of core's time with 3.5 MB for each process, 0.8 to
 * 1.6 of it with 1.7 MB.
 */
#define MIN_SORT_MEMORY (4 * 1024 * 1024)

/* What the processes of a build share.  Only `scan` changes. */
typedef struct ParallelShared
{
	char		build_id[32];	/* first, in all builds */
	Oid			heap;
	Oid			index;
	bool		concurrent;
	int64		queryid;
	int			nworkers;		/* asked for */
	int			batch_blocks;
	int64		sort_memory;
	Size		queue_size;
	LaScanShare scan;
} ParallelShared;

StaticAssertDecl(sizeof(LA_BUILD_ID) <= sizeof(((ParallelShared *) 0)->build_id),
				 "build ids must fit");

/* The leader's part of it. */
typedef struct Parallel
{
	ParallelContext *context;
	ParallelShared *shared;
	char	   *queues;
	WalUsage   *wal_usage;
	BufferUsage *buffer_usage;
	LaStream   *streams;
	int			nstreams;
} Parallel;

static Size
queues_size(const ParallelShared *plan)
{
	return plan->nworkers * plan->queue_size;
}

/*
 * Shares out the memory.  What is left for sorting is negative if the queues, which
 * have a least size, take more than there is.
 */
static void
plan_memory(ParallelShared *plan, int64 memory)
{
	plan->batch_blocks = Min(LA_BUILD_BATCH_BLOCKS, memory / 16 / BLCKSZ);
	plan->queue_size = Min(QUEUE_SIZE, memory / 64);
	plan->queue_size = MAXALIGN(Max(plan->queue_size, MIN_QUEUE_SIZE));
	memory -= (int64) plan->batch_blocks * BLCKSZ;
	memory -= (int64) queues_size(plan);
	plan->sort_memory = memory / (plan->nworkers + 1);
}

/*
 * True if `memory` bytes are enough for the leader and so many workers.
 */
bool
la_build_parallel_has_memory(int nworkers, int64 memory)
{
	ParallelShared plan = {.nworkers = nworkers};

	plan_memory(&plan, memory);
	return plan.sort_memory >= MIN_SORT_MEMORY;
}

static void
estimate_chunk(ParallelContext *context, Size size)
{
	shm_toc_estimate_chunk(&context->estimator, size);
	shm_toc_estimate_keys(&context->estimator, 1);
}

static void
estimate_space(ParallelContext *context, Relation heap, Snapshot snapshot,
			   const ParallelShared *plan)
{
	estimate_chunk(context, sizeof(ParallelShared));
	estimate_chunk(context, queues_size(plan));
	estimate_chunk(context, mul_size(sizeof(WalUsage), plan->nworkers));
	estimate_chunk(context, mul_size(sizeof(BufferUsage), plan->nworkers));
	if (plan->concurrent)
		estimate_chunk(context, table_parallelscan_estimate(heap, snapshot));
	if (debug_query_string != NULL)
		estimate_chunk(context, strlen(debug_query_string) + 1);
}

static void *
make_room(ParallelContext *context, uint64 key, Size size)
{
	void	   *room = shm_toc_allocate(context->toc, size);

	shm_toc_insert(context->toc, key, room);
	return room;
}

/*
 * The queue between the leader and a worker.
 */
static shm_mq *
queue_of_worker(const ParallelShared *shared, char *queues, int worker)
{
	return (shm_mq *) (queues + worker * shared->queue_size);
}

static void
fill_space(Parallel *parallel, Relation heap, Snapshot snapshot,
		   const ParallelShared *plan)
{
	ParallelContext *context = parallel->context;
	int			nworkers = plan->nworkers;
	Size		wal_size = mul_size(sizeof(WalUsage), nworkers);
	Size		buffer_size = mul_size(sizeof(BufferUsage), nworkers);

	parallel->shared = make_room(context, KEY_SHARED, sizeof(ParallelShared));
	memcpy(parallel->shared, plan, sizeof(ParallelShared));
	parallel->queues = make_room(context, KEY_QUEUES, queues_size(plan));
	for (int i = 0; i < nworkers; i++)
	{
		shm_mq	   *queue = queue_of_worker(plan, parallel->queues, i);

		shm_mq_create(queue, plan->queue_size);
		shm_mq_set_receiver(queue, MyProc);
	}
	/* a worker that finds another build of the library leaves it as it is */
	parallel->wal_usage = make_room(context, KEY_WAL_USAGE, wal_size);
	memset(parallel->wal_usage, 0, wal_size);
	parallel->buffer_usage = make_room(context, KEY_BUFFER_USAGE, buffer_size);
	memset(parallel->buffer_usage, 0, buffer_size);
	if (plan->concurrent)
	{
		ParallelTableScanDesc scan =
			make_room(context, KEY_TABLE_SCAN, table_parallelscan_estimate(heap, snapshot));

		table_parallelscan_initialize(heap, scan, snapshot);
		scan->phs_syncscan = false;
	}
	if (debug_query_string != NULL)
		strcpy(make_room(context, KEY_QUERY_TEXT,
						 strlen(debug_query_string) + 1), debug_query_string);
}

/*
 * Waits for the workers to end, and leaves parallel mode.
 */
static void
end_workers(Parallel *parallel)
{
	ParallelContext *context = parallel->context;

	WaitForParallelWorkersToFinish(context);
	for (int i = 0; i < context->nworkers_launched; i++)
		InstrAccumParallelQuery(&parallel->buffer_usage[i],
								&parallel->wal_usage[i]);
	DestroyParallelContext(context);
	ExitParallelMode();
}

/*
 * Starts the workers that indexInfo asks for, to share `memory` bytes with
 * them, which are enough.  False if there are none to be had.  Until
 * end_workers() the leader is in parallel mode.
 */
static bool
begin_workers(Parallel *parallel, Relation heap, Relation index,
			  IndexInfo *indexInfo, Snapshot snapshot, int64 memory)
{
	ParallelShared plan = {LA_BUILD_ID};
	ParallelContext *context;

	plan.heap = RelationGetRelid(heap);
	plan.index = RelationGetRelid(index);
	plan.concurrent = indexInfo->ii_Concurrent;
	plan.queryid = pgstat_get_my_query_id();
	plan.nworkers = indexInfo->ii_ParallelWorkers;
	plan_memory(&plan, memory);

	EnterParallelMode();
	context = CreateParallelContext(la_background_library(), "pg_lookahead_build_worker",
									plan.nworkers);
	parallel->context = context;
	estimate_space(context, heap, snapshot, &plan);
	InitializeParallelDSM(context);
	if (context->seg == NULL)
	{
		DestroyParallelContext(context);
		ExitParallelMode();
		return false;
	}
	fill_space(parallel, heap, snapshot, &plan);
	la_build_scan_share_init(&parallel->shared->scan, heap, plan.nworkers + 1);

	LaunchParallelWorkers(context);
	if (context->nworkers_launched == 0)
	{
		end_workers(parallel);
		return false;
	}
	return true;
}

/*
 * Waits until the workers have scanned the table, and begins the streams in which
 * their entries come.
 */
static void
begin_streams(Parallel *parallel, const LaBuildKey *key)
{
	ParallelContext *context = parallel->context;
	int			nlaunched = context->nworkers_launched;

	parallel->streams = palloc0(nlaunched * sizeof(LaStream));
	for (int i = 0; i < nlaunched; i++)
	{
		LaStream   *stream = &parallel->streams[parallel->nstreams];
		shm_mq	   *queue = queue_of_worker(parallel->shared, parallel->queues, i);

		if (la_build_stream_begin(stream,
								  shm_mq_attach(queue, context->seg,
												context->worker[i].bgwhandle),
								  key->kind))
			parallel->nstreams++;
		else
			ProcessParallelMessages();
	}
}

/*
 * This process's part of the scan of a concurrent build; NULL in others.
 */
static TableScanDesc
begin_scan(const ParallelShared *shared, shm_toc *toc, Relation heap)
{
	if (!shared->concurrent)
		return NULL;
	return table_beginscan_parallel(heap, shm_toc_lookup(toc, KEY_TABLE_SCAN, false));
}

/*
 * Builds an index with the workers that indexInfo asks for, which share `memory`
 * bytes that are enough.  False if there are none to be had.  Tells why core has to do
 * it after all, if it has.
 */
bool
la_build_parallel(Relation heap, Relation index, IndexInfo *indexInfo,
				  LaBuildKey *key, Snapshot snapshot, int64 memory,
				  IndexBuildResult *result, LaReason *reason)
{
	Parallel	parallel = {0};
	LaSort	   *sort;
	LaLoad	   *load;

	if (!begin_workers(&parallel, heap, index, indexInfo, snapshot, memory))
		return false;
	sort = la_build_collect_begin(heap, key, parallel.shared->sort_memory, true);
	result->heap_tuples = la_build_scan(heap, index, indexInfo,
										begin_scan(parallel.shared, parallel.context->toc, heap),
										&parallel.shared->scan, sort);
	result->index_tuples = sort->count;
	*reason = sort->reason;
	begin_streams(&parallel, key);
	for (int i = 0; i < parallel.nstreams; i++)
	{
		const LaScanResult *found = &parallel.streams[i].result;

		result->heap_tuples += found->live_rows;
		result->index_tuples += found->entries;
		indexInfo->ii_BrokenHotChain |= found->broken_hot_chain;
		if (found->reason != LA_REASON_NONE)
			*reason = found->reason;
	}

	load = la_build_load_begin(heap, index, key, indexInfo, result->index_tuples,
							   la_page_writer_begin(index,
													parallel.shared->batch_blocks));
	if (*reason != LA_REASON_NONE)
	{
		la_build_load_abandon(load);
		la_build_collect_discard(sort);
	}
	la_build_drain(sort, la_build_merge_begin(la_build_load_output(load), key,
											  parallel.streams, parallel.nstreams));
	if (!la_build_load_end(load) && *reason == LA_REASON_NONE)
		*reason = LA_REASON_COLLATION;
	end_workers(&parallel);
	return true;
}

/*
 * Scans a share of the table, and sends its entries in order.
 */
static void
scan_and_send(Relation heap, Relation index, ParallelShared *shared,
			  TableScanDesc pages, shm_mq_handle *queue)
{
	IndexInfo  *indexInfo = BuildIndexInfo(index);
	LaBuildKey	key;
	LaScanResult result;
	LaSort	   *sort;
	LaOutput   *sender;

	if (!la_build_key_init(&key, index))
		elog(ERROR, "key of index \"%s\" is not what the leader saw",
			 RelationGetRelationName(index));
	indexInfo->ii_Concurrent = shared->concurrent;
	sort = la_build_collect_begin(heap, &key, shared->sort_memory, true);
	result.live_rows = la_build_scan(heap, index, indexInfo, pages,
									 &shared->scan, sort);
	result.entries = sort->count;
	result.broken_hot_chain = indexInfo->ii_BrokenHotChain;
	result.reason = sort->reason;

	sender = la_build_sender_begin(queue, key.kind, &result);
	if (sort->reason != LA_REASON_NONE)
		la_build_collect_discard(sort);
	la_build_drain(sort, sender);
	la_build_sender_end(sender);
}

/*
 * Opens the relations, with the locks that the leader is known to have, and
 * does this worker's part.
 */
static void
do_worker_part(ParallelShared *shared, shm_toc *toc, shm_mq_handle *queue)
{
	LOCKMODE	heap_lock = shared->concurrent ? ShareUpdateExclusiveLock : ShareLock;
	LOCKMODE	index_lock = shared->concurrent ? RowExclusiveLock : AccessExclusiveLock;
	Relation	heap = table_open(shared->heap, heap_lock);
	Relation	index = index_open(shared->index, index_lock);

	scan_and_send(heap, index, shared, begin_scan(shared, toc, heap), queue);

	index_close(index, index_lock);
	table_close(heap, heap_lock);
}

/*
 * What a worker does.
 */
void
pg_lookahead_build_worker(dsm_segment *seg, shm_toc *toc)
{
	ParallelShared *shared = shm_toc_lookup(toc, KEY_SHARED, false);
	shm_mq	   *queue;
	WalUsage   *wal_usage;
	BufferUsage *buffer_usage;

	if (strcmp(shared->build_id, LA_BUILD_ID) != 0)
		return;

	debug_query_string = shm_toc_lookup(toc, KEY_QUERY_TEXT, true);
	pgstat_report_activity(STATE_RUNNING, debug_query_string);
	pgstat_report_query_id(shared->queryid, false);

	queue = queue_of_worker(shared, shm_toc_lookup(toc, KEY_QUEUES, false),
							ParallelWorkerNumber);
	shm_mq_set_sender(queue, MyProc);

	InstrStartParallelQuery();
	do_worker_part(shared, toc, shm_mq_attach(queue, seg, NULL));
	buffer_usage = shm_toc_lookup(toc, KEY_BUFFER_USAGE, false);
	wal_usage = shm_toc_lookup(toc, KEY_WAL_USAGE, false);
	InstrEndParallelQuery(&buffer_usage[ParallelWorkerNumber],
						  &wal_usage[ParallelWorkerNumber]);
}
