/*-------------------------------------------------------------------------
 *
 * la_build.c
 *	  builds btree indexes in place of core's btbuild()
 *
 * The function that la_takeover.c puts in the place of ambuild.  It looks at
 * the settings and at the index each time it is called, and calls core's
 * btbuild() if this index is not for us.
 *
 * A build has the phases of core's, and reports them to
 * pg_stat_progress_create_index in the same way: the table is scanned
 * (la_build_scan.c), entries are collected (la_build_sort.c), then sorted
 * and loaded (la_build_load.c) in one phase, because sorting one part
 * alternates with loading it.
 *
 * Memory is that of maintenance_work_mem.  Parallel workers are used where
 * core would use them (la_build_parallel.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/nbtree.h"
#include "catalog/catalog.h"
#include "catalog/storage.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/injection_point.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "index_build/la_build.h"
#include "index_build/la_build_key.h"
#include "index_build/la_build_load.h"
#include "index_build/la_build_merge.h"
#include "index_build/la_build_parallel.h"
#include "index_build/la_build_scan.h"
#include "index_build/la_build_sort.h"
#include "la_guc.h"
#include "la_stats.h"

static LaReason unsuitable_relation(Relation heap, IndexInfo *indexInfo);
static LaReason unsuitable_key(Relation index, LaBuildKey *key);
static IndexBuildResult *leave_to_core(Relation heap, Relation index,
									   IndexInfo *indexInfo, LaReason reason);
static bool build_index(Relation heap, Relation index, IndexInfo *indexInfo,
						LaBuildKey *key, IndexBuildResult *result);
static bool build_alone(Relation heap, Relation index, IndexInfo *indexInfo,
						LaBuildKey *key, Snapshot snapshot,
						IndexBuildResult *result);
static bool build_with_workers(Relation heap, Relation index,
							   IndexInfo *indexInfo, LaBuildKey *key,
							   Snapshot snapshot, LaParallel *parallel,
							   IndexBuildResult *result);
static LaUniqueness uniqueness_of(const IndexInfo *indexInfo);
static void report_loading(const IndexBuildResult *result);

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
	reason = unsuitable_relation(heap, indexInfo);
	if (reason == LA_REASON_NONE)
		reason = unsuitable_key(index, &key);
	if (reason == LA_REASON_NONE)
	{
		/* as in btbuild() */
		if (RelationGetNumberOfBlocks(index) != 0)
			elog(ERROR, "index \"%s\" already contains data",
				 RelationGetRelationName(index));

		la_stats_count(LA_FEATURE_INDEX_BUILD, LA_REASON_NONE, false);
		if (!build_index(heap, index, indexInfo, &key, result))
		{
			la_collation_distrust(la_key_guessed_collation(&key));
			RelationTruncate(index, 0);
			reason = LA_REASON_COLLATION;
		}
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
	if (reason != LA_REASON_NONE)
		return leave_to_core(heap, index, indexInfo, reason);
	return result;
}

static IndexBuildResult *
leave_to_core(Relation heap, Relation index, IndexInfo *indexInfo,
			  LaReason reason)
{
	la_stats_count(LA_FEATURE_INDEX_BUILD, reason, false);
	ereport(DEBUG1,
			(errmsg_internal("pg_lookahead leaves the build of index \"%s\" to PostgreSQL: %s",
							 RelationGetRelationName(index),
							 la_reason_text(reason))));
	return btbuild(heap, index, indexInfo);
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
 */
static LaReason
unsuitable_key(Relation index, LaBuildKey *key)
{
	if (!la_key_init(key, index))
		return LA_REASON_KEY_TYPE;
	if (key->is_guess &&
		la_collation_is_distrusted(la_key_guessed_collation(key)))
		return LA_REASON_COLLATION;
	return LA_REASON_NONE;
}

/*
 * Builds the index, in the current memory context.  False if its entries have
 * turned out not to be in order: then it has pages that are of no use.
 */
static bool
build_index(Relation heap, Relation index, IndexInfo *indexInfo,
			LaBuildKey *key, IndexBuildResult *result)
{
	Snapshot	snapshot = SnapshotAny;
	LaParallel *parallel = NULL;
	bool		built;

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE,
								 PROGRESS_BTREE_PHASE_INDEXBUILD_TABLESCAN);
	if (indexInfo->ii_Concurrent)
		snapshot = RegisterSnapshot(GetTransactionSnapshot());
	if (indexInfo->ii_ParallelWorkers > 0)
		parallel = la_parallel_begin(heap, index, indexInfo, snapshot,
									 (int64) maintenance_work_mem * 1024);
	if (parallel != NULL)
		built = build_with_workers(heap, index, indexInfo, key, snapshot,
								   parallel, result);
	else
		built = build_alone(heap, index, indexInfo, key, snapshot, result);
	if (indexInfo->ii_Concurrent)
		UnregisterSnapshot(snapshot);
	return built;
}

static bool
build_alone(Relation heap, Relation index, IndexInfo *indexInfo,
			LaBuildKey *key, Snapshot snapshot, IndexBuildResult *result)
{
	int64		memory = (int64) maintenance_work_mem * 1024;
	int			step_blocks = la_index_build_extend_size;
	int			batch_blocks = Min(step_blocks, memory / 8 / BLCKSZ);
	LaScanShare share;
	LaSort	   *sort;
	LaLoad	   *load;

	la_scan_share_init(&share, heap, 1);
	sort = la_sort_begin(heap, key, memory - (int64) batch_blocks * BLCKSZ,
						 NULL);
	result->heap_tuples = la_build_scan(heap, index, indexInfo, snapshot,
										&share, sort);
	result->index_tuples = la_sort_count(sort);

	report_loading(result);
	load = la_load_begin(heap, index, key, uniqueness_of(indexInfo),
						 la_page_writer_begin(index, step_blocks, batch_blocks));
	la_sort_finish(sort, la_load_output(load));
	return la_load_end(load);
}

/*
 * The leader's part of a build with parallel workers.
 */
static bool
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
	bool		built;

	result->heap_tuples = la_build_scan(heap, index, indexInfo, snapshot,
										la_parallel_scan(parallel), sort);
	result->index_tuples = la_sort_count(sort);
	nstreams = la_parallel_streams(parallel, key, &streams);
	for (int i = 0; i < nstreams; i++)
	{
		result->heap_tuples += streams[i].result.live_rows;
		result->index_tuples += streams[i].result.entries;
		indexInfo->ii_BrokenHotChain |= streams[i].result.broken_hot_chain;
	}

	report_loading(result);
	load = la_load_begin(heap, index, key, uniqueness_of(indexInfo),
						 la_parallel_writer(parallel, index));
	la_sort_finish(sort, la_merge_begin(load, key, streams, nstreams));
	built = la_load_end(load);
	la_parallel_end(parallel);
	return built;
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
