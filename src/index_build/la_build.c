/*-------------------------------------------------------------------------
 *
 * la_build.c
 *	  builds btree indexes in place of core's btbuild()
 *
 * The function that la_ambuild.c puts in the place of ambuild.  It looks at
 * the settings and at the index each time it is called, and calls core's
 * btbuild() if this index is not for us.
 *
 * A build has the phases of core's, and reports them to
 * pg_stat_progress_create_index in the same way: the table is scanned
 * (la_build_scan.c), entries are collected (la_build_sort.c), then sorted
 * and loaded (la_build_load.c) in one phase, because sorting one part
 * alternates with loading it.
 *
 * Memory is that of maintenance_work_mem; where it is little for as many
 * processes, core's sort is faster and builds the index.  Parallel workers are
 * used where core would use them (la_build_parallel.c).
 *
 * An error in mid-build leaves nothing that we would have to undo: memory is in a context
 * below the caller's, temporary files, workers and the file of a new index go with
 * the transaction, or stay with the invalid index, as core's do, if it is concurrent.
 * Two things outlive that, and are put back where they are set: that
 * checkpoints wait (log_and_write() in la_page_writer.c), and the setting of parallel
 * workers (la_ambuild.c).  The build is counted here.
 *
 * Why core builds an index is mostly known beforehand.  In mid-build a row that is too long and
 * an order that was guessed wrongly are found out.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/nbtree.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/storage.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/injection_point.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "bulk_write/la_page_writer.h"
#include "index_build/keys/la_build_key.h"
#include "index_build/la_build.h"
#include "index_build/la_build_feature.h"
#include "index_build/load/la_build_load.h"
#include "index_build/parallel/la_build_merge.h"
#include "index_build/parallel/la_build_parallel.h"
#include "index_build/scan/la_build_scan.h"
#include "index_build/sort/la_build_sort.h"
#include "la_reason.h"
#include "statistics/la_stats.h"

static int64 memory_bytes(void);
static void count_build(LaReason reason);
static LaReason build_and_count(Relation heap, Relation index,
								IndexInfo *indexInfo, LaBuildKey *key,
								IndexBuildResult *result);
static LaReason build_index(Relation heap, Relation index,
							IndexInfo *indexInfo, LaBuildKey *key,
							IndexBuildResult *result);
static LaReason build_alone(Relation heap, Relation index,
							IndexInfo *indexInfo, LaBuildKey *key,
							Snapshot snapshot, IndexBuildResult *result);
static LaReason build_with_workers(Relation heap, Relation index,
								   IndexInfo *indexInfo, LaBuildKey *key,
								   Snapshot snapshot, LaParallel *parallel,
								   IndexBuildResult *result);
static LaUniqueness uniqueness_of(const IndexInfo *indexInfo);
static void report_loading(const IndexBuildResult *result);
static LaReason reason_of(Relation heap, Relation index,
						  IndexInfo *indexInfo, int64 memory, LaBuildKey *key);
static LaReason unsuitable_relation(Relation heap, IndexInfo *indexInfo);
static LaReason unsuitable_key(Relation index, LaBuildKey *key);

/*
 * The ambuild of btree indexes.
 */
IndexBuildResult *
la_build(Relation heap, Relation index, IndexInfo *indexInfo)
{
	LaReason	reason;
	LaBuildKey	key;
	IndexBuildResult *result;
	MemoryContext context;
	MemoryContext caller;

	if (!la_feature_enabled(LA_FEATURE_INDEX_BUILD))
		return btbuild(heap, index, indexInfo);

	result = palloc0(sizeof(IndexBuildResult));
	context = AllocSetContextCreate(CurrentMemoryContext, "index build",
									ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(context);
	reason = reason_of(heap, index, indexInfo, memory_bytes(), &key);
	if (reason == LA_REASON_NONE)
	{
		/* mirrors btbuild() in nbtsort.c */
		if (RelationGetNumberOfBlocks(index) != 0)
			elog(ERROR, "index \"%s\" already contains data",
				 RelationGetRelationName(index));

		reason = build_and_count(heap, index, indexInfo, &key, result);
	}
	else
		count_build(reason);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
	if (reason == LA_REASON_NONE)
		return result;
	ereport(DEBUG1,
			(errmsg_internal("pg_lookahead leaves the build of index \"%s\" to PostgreSQL: %s",
							 RelationGetRelationName(index),
							 la_reason_text(reason))));
	return btbuild(heap, index, indexInfo);
}

static int64
memory_bytes(void)
{
	return (int64) maintenance_work_mem * 1024;
}

/*
 * Counts a build that was ours, or left to core for a reason.
 */
static void
count_build(LaReason reason)
{
	static const LaCounters one = {.scans = 1};

	la_stats_count(LA_FEATURE_INDEX_BUILD, reason, false);
	if (reason == LA_REASON_NONE)
		la_stats_add(LA_FEATURE_INDEX_BUILD, &one);
}

/*
 * Builds the index and counts it once, whichever way that ends: a build that
 * fails as one of ours.  If core has to do it after all, the index is empty again,
 * and the reason is returned.
 */
static LaReason
build_and_count(Relation heap, Relation index, IndexInfo *indexInfo,
				LaBuildKey *key, IndexBuildResult *result)
{
	volatile LaReason reason = LA_REASON_NONE;

	PG_TRY();
	{
		reason = build_index(heap, index, indexInfo, key, result);
	}
	PG_CATCH();
	{
		count_build(LA_REASON_NONE);
		PG_RE_THROW();
	}
	PG_END_TRY();

	count_build(reason);
	if (reason == LA_REASON_COLLATION)
		la_collation_distrust(la_key_guessed_collation(key));
	if (reason != LA_REASON_NONE)
		RelationTruncate(index, 0);
	return reason;
}

/*
 * Builds the index, in the current memory context.  If core has to do it after
 * all, tells why: its entries have turned out not to be in order, or one is so
 * long that core will refuse the index, with the error that comes first there.  Then
 * the index may have pages, which are of no use.
 */
static LaReason
build_index(Relation heap, Relation index, IndexInfo *indexInfo,
			LaBuildKey *key, IndexBuildResult *result)
{
	Snapshot	snapshot = SnapshotAny;
	LaParallel *parallel = NULL;
	LaReason	reason;

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE,
								 PROGRESS_BTREE_PHASE_INDEXBUILD_TABLESCAN);
	if (indexInfo->ii_Concurrent)
		snapshot = RegisterSnapshot(GetTransactionSnapshot());
	if (indexInfo->ii_ParallelWorkers > 0)
		parallel = la_parallel_begin(heap, index, indexInfo, snapshot,
									 memory_bytes());
	if (parallel != NULL)
		reason = build_with_workers(heap, index, indexInfo, key, snapshot,
									parallel, result);
	else
		reason = build_alone(heap, index, indexInfo, key, snapshot, result);
	if (indexInfo->ii_Concurrent)
		UnregisterSnapshot(snapshot);
	return reason;
}

static LaReason
build_alone(Relation heap, Relation index, IndexInfo *indexInfo,
			LaBuildKey *key, Snapshot snapshot, IndexBuildResult *result)
{
	int64		memory = memory_bytes();
	int			batch_blocks = Min(LA_BUILD_BATCH_BLOCKS, memory / 8 / BLCKSZ);
	LaScanShare share;
	LaSort	   *sort;
	LaLoad	   *load;

	la_scan_share_init(&share, heap, 1);
	sort = la_sort_begin(heap, key, memory - (int64) batch_blocks * BLCKSZ,
						 NULL);
	result->heap_tuples = la_build_scan(heap, index, indexInfo, snapshot,
										&share, sort);
	result->index_tuples = la_sort_count(sort);
	if (la_sort_is_refused(sort))
		return LA_REASON_ROW_SIZE;

	report_loading(result);
	load = la_load_begin(heap, index, key, uniqueness_of(indexInfo),
						 la_page_writer_begin(index, batch_blocks));
	/* in ICU it costs little to look twice */
	if (la_sort_is_in_order(sort) && la_key_chosen_column(key) < 0)
		la_load_trust_order(load);
	la_sort_finish(sort, la_load_output(load));
	return la_load_end(load) ? LA_REASON_NONE : LA_REASON_COLLATION;
}

/*
 * The leader's part of a build with parallel workers.
 */
static LaReason
build_with_workers(Relation heap, Relation index, IndexInfo *indexInfo,
				   LaBuildKey *key, Snapshot snapshot, LaParallel *parallel,
				   IndexBuildResult *result)
{
	LaSort	   *sort = la_sort_begin(heap, key,
									 la_parallel_sort_memory(parallel),
									 la_parallel_pools(parallel));
	LaStream   *streams;
	int			nstreams;
	LaLoad	   *load;
	bool		refused;
	bool		built;

	result->heap_tuples = la_build_scan(heap, index, indexInfo, snapshot,
										la_parallel_scan(parallel), sort);
	result->index_tuples = la_sort_count(sort);
	refused = la_sort_is_refused(sort);
	nstreams = la_parallel_streams(parallel, key, &streams);
	for (int i = 0; i < nstreams; i++)
	{
		result->heap_tuples += streams[i].result.live_rows;
		result->index_tuples += streams[i].result.entries;
		indexInfo->ii_BrokenHotChain |= streams[i].result.broken_hot_chain;
		refused |= streams[i].result.refused;
	}

	report_loading(result);
	load = la_load_begin(heap, index, key, uniqueness_of(indexInfo),
						 la_parallel_pages(parallel, index));
	if (refused)
		la_load_abandon(load);
	la_sort_finish(sort, la_merge_begin(la_load_output(load), key, streams, nstreams));
	built = la_load_end(load);
	la_parallel_end(parallel);
	if (refused)
		return LA_REASON_ROW_SIZE;
	return built ? LA_REASON_NONE : LA_REASON_COLLATION;
}

static LaUniqueness
uniqueness_of(const IndexInfo *indexInfo)
{
	LaUniqueness uniqueness = {indexInfo->ii_Unique,
	indexInfo->ii_NullsNotDistinct};

	return uniqueness;
}

/*
 * Reports that the table has been scanned.
 */
static void
report_loading(const IndexBuildResult *result)
{
	INJECTION_POINT("pg-lookahead-table-scanned", NULL);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_TOTAL,
								 (int64) result->index_tuples);
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, 0);
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, 0);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE,
								 PROGRESS_BTREE_PHASE_LEAF_LOAD);
}

/*
 * Least memory, in bytes: as much as PostgreSQL took as the least
 * maintenance_work_mem up to 17.  With less, entries are moved from buckets to
 * buckets more often than core merges runs: 400,000 numbers took 1.3 times core's
 * time with 512 kB, 2.8 times with 64 kB, and 0.7 of it with 1 MB.
 */
#define MIN_MEMORY (1024 * 1024)

/*
 * Why an index is left to core, which may use so many bytes of memory; if it is not,
 * describes its key, in the current context.
 */
static LaReason
reason_of(Relation heap, Relation index, IndexInfo *indexInfo,
		  int64 memory, LaBuildKey *key)
{
	int			nworkers = indexInfo->ii_ParallelWorkers;
	LaReason	reason = unsuitable_relation(heap, indexInfo);

	if (reason == LA_REASON_NONE &&
		(memory < MIN_MEMORY ||
		 (nworkers > 0 && !la_parallel_has_memory(nworkers, memory))))
		reason = LA_REASON_MEMORY;

	if (reason == LA_REASON_NONE)
		reason = unsuitable_key(index, key);
	return reason;
}

/*
 * Why an index on this table is left to core, whatever its key is.
 */
static LaReason
unsuitable_relation(Relation heap, IndexInfo *indexInfo)
{
	if (!IsNormalProcessingMode() || IsSystemRelation(heap))
		return LA_REASON_SYSTEM_CATALOG;
	if (heap->rd_tableam != GetHeapamTableAmRoutine())
		return LA_REASON_TABLE_AM;
	if (RELATION_IS_OTHER_TEMP(heap))
		return LA_REASON_OTHER_TEMP;

	/* core's scan then takes predicate locks, which ours does not */
	if (indexInfo->ii_Concurrent && IsolationIsSerializable())
		return LA_REASON_SNAPSHOT;
	return LA_REASON_NONE;
}

/*
 * Why an index with this key is left to core; if it is not, describes the key.
 *
 * Core does not look at the collation of a column that is compared byte by byte, so we do
 * not either: its locale may have another version by now, which would be warned of, or be gone.
 * Relies on bttext_pattern_sortsupport() in varlena.c.
 */
static LaReason
unsuitable_key(Relation index, LaBuildKey *key)
{
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		Oid			compare = index_getprocid(index, i + 1, BTORDER_PROC);

		if (compare != F_BTTEXT_PATTERN_CMP && compare != F_BTBPCHAR_PATTERN_CMP &&
			la_collation_is_shifted(index->rd_indcollation[i]))
			return LA_REASON_COLLATION;
	}
	if (!la_key_init(key, index))
		return LA_REASON_KEY_TYPE;
	if (la_collation_is_distrusted(la_key_guessed_collation(key)))
		return LA_REASON_COLLATION;
	return LA_REASON_NONE;
}
