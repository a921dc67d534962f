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
 * (la_build_scan.c), entries are collected (la_build_collect.c), then sorted
 * and loaded (la_build_drain.c, la_build_load.c) in one phase, because sorting
 * one part alternates with loading it.
 *
 * Memory is that of maintenance_work_mem.  Parallel workers are used where core
 * would use them (la_build_parallel.c).
 *
 * An error in mid-build leaves nothing that we would have to undo here: memory is
 * in a context below the caller's; temporary files, workers and the file of a new
 * index go with the transaction, or stay with the invalid index, as core's do,
 * if it is concurrent.  Only the flag that makes checkpoints wait would outlive an
 * error; log_and_write() in la_page_writer.c clears it.  The build is counted here.
 *
 * Why core builds an index is mostly known beforehand.  In mid-build a row that
 * is too long, entries that words hardly divide and an order that was guessed
 * wrongly are found out.  Then the file is emptied and core begins anew.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/nbtree.h"
#include "access/tableam.h"
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
#include "index_build/load/la_build_load.h"
#include "index_build/parallel/la_build_parallel.h"
#include "index_build/scan/la_build_scan.h"
#include "index_build/sort/la_build_drain.h"
#include "la_reason.h"
#include "statistics/la_stats.h"

/*
 * Least memory, in bytes.  With less, so few buckets have files at a time that
 * entries are moved from buckets to buckets more often than core merges runs: with
 * 1 MB a falling number and a text took 1.7 times core's time, 0.8 of it with 2 MB.
 */
#define MIN_MEMORY (2 * 1024 * 1024)

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
			la_build_collation_is_shifted(index->rd_indcollation[i]))
			return LA_REASON_COLLATION;
	}
	if (!la_build_key_init(key, index))
		return LA_REASON_KEY_TYPE;
	if (la_build_collation_is_distrusted(la_build_key_guessed_collation(key)))
		return LA_REASON_COLLATION;
	return LA_REASON_NONE;
}

/*
 * Why an index is left to core, which may use so many bytes of memory; if it is not,
 * describes its key, in the current context.
 */
static LaReason
reason_of(Relation heap, Relation index, IndexInfo *indexInfo,
		  int64 memory, LaBuildKey *key)
{
	int			nworkers = indexInfo->ii_ParallelWorkers;

	if (!IsNormalProcessingMode() || IsSystemRelation(heap))
		return LA_REASON_SYSTEM_CATALOG;
	if (heap->rd_tableam != GetHeapamTableAmRoutine())
		return LA_REASON_TABLE_AM;
	if (RELATION_IS_OTHER_TEMP(heap))
		return LA_REASON_OTHER_TEMP;

	if (memory < MIN_MEMORY ||
		(nworkers > 0 && !la_build_parallel_has_memory(nworkers, memory)))
		return LA_REASON_MEMORY;
	return unsuitable_key(index, key);
}

/*
 * Builds the index without workers.
 */
static LaReason
build_alone(Relation heap, Relation index, IndexInfo *indexInfo,
			LaBuildKey *key, Snapshot snapshot, int64 memory,
			IndexBuildResult *result)
{
	int			batch_blocks = Min(LA_BUILD_BATCH_BLOCKS, memory / 8 / BLCKSZ);
	LaSort	   *sort = la_build_collect_begin(heap, key,
											  memory - (int64) batch_blocks * BLCKSZ,
											  false);
	TableScanDesc pages = NULL;
	LaScanShare share;
	LaLoad	   *load;

	if (indexInfo->ii_Concurrent)
		pages = table_beginscan_strat(heap, snapshot, 0, NULL, true, false);
	la_build_scan_share_init(&share, heap, 1);
	result->heap_tuples = la_build_scan(heap, index, indexInfo, pages,
										&share, sort);
	result->index_tuples = sort->count;
	if (sort->reason != LA_REASON_NONE)
	{
		la_build_collect_discard(sort);
		return sort->reason;
	}

	load = la_build_load_begin(heap, index, key, indexInfo, sort->count,
							   la_page_writer_begin(index, batch_blocks));
	if (sort->in_order)
		la_build_load_trust_order(load);
	la_build_drain(sort, la_build_load_output(load));
	return la_build_load_end(load) ? LA_REASON_NONE : LA_REASON_COLLATION;
}

/*
 * Builds the index, in the current memory context.  If core has to do it after
 * all, tells why: its entries have turned out not to be in order, or not to be
 * divided by words, or one is so long that core will refuse the index, with the
 * error that comes first there.  Then the index may have pages, which are of no use.
 */
static LaReason
build_index(Relation heap, Relation index, IndexInfo *indexInfo,
			LaBuildKey *key, int64 memory, IndexBuildResult *result)
{
	Snapshot	snapshot = SnapshotAny;
	LaReason	reason;

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE,
								 PROGRESS_BTREE_PHASE_INDEXBUILD_TABLESCAN);
	if (indexInfo->ii_Concurrent)
		snapshot = RegisterSnapshot(GetTransactionSnapshot());
	if (indexInfo->ii_ParallelWorkers == 0 ||
		!la_build_parallel(heap, index, indexInfo, key, snapshot, memory, result,
						   &reason))
		reason = build_alone(heap, index, indexInfo, key, snapshot, memory, result);
	if (indexInfo->ii_Concurrent)
		UnregisterSnapshot(snapshot);
	return reason;
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
				LaBuildKey *key, int64 memory, IndexBuildResult *result)
{
	volatile LaReason reason = LA_REASON_NONE;

	/* mirrors btbuild() in nbtsort.c */
	if (RelationGetNumberOfBlocks(index) != 0)
		elog(ERROR, "index \"%s\" already contains data",
			 RelationGetRelationName(index));

	PG_TRY();
	{
		reason = build_index(heap, index, indexInfo, key, memory, result);
	}
	PG_CATCH();
	{
		count_build(LA_REASON_NONE);
		PG_RE_THROW();
	}
	PG_END_TRY();

	count_build(reason);
	if (reason == LA_REASON_COLLATION)
		la_build_collation_distrust(la_build_key_guessed_collation(key));
	if (reason != LA_REASON_NONE && RelationGetNumberOfBlocks(index) > 0)
		RelationTruncate(index, 0);
	return reason;
}

/*
 * The ambuild of btree indexes.
 */
IndexBuildResult *
la_build(Relation heap, Relation index, IndexInfo *indexInfo)
{
	int64		memory = (int64) maintenance_work_mem * 1024;
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
	reason = reason_of(heap, index, indexInfo, memory, &key);
	if (reason == LA_REASON_NONE)
		reason = build_and_count(heap, index, indexInfo, &key, memory, result);
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
