/*-------------------------------------------------------------------------
 *
 * la_build_reason.c
 *	  why the build of an index is left to core
 *
 * As far as is known beforehand.  In mid-build a row that is too long and an order
 * that was guessed wrongly are found out (la_build.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

#include "index_build/la_build_feature.h"
#include "index_build/la_build_reason.h"
#include "index_build/parallel/la_build_parallel.h"

/*
 * Least memory, in bytes: as much as PostgreSQL took as the least
 * maintenance_work_mem up to 17.  With less, entries are moved from buckets to
 * buckets more often than core merges runs: 400,000 numbers took 1.3 times core's
 * time with 512 kB, 2.8 times with 64 kB, and 0.7 of it with 1 MB.
 */
#define MIN_MEMORY (1024 * 1024)

static LaReason unsuitable_relation(Relation heap, IndexInfo *indexInfo);
static LaReason unsuitable_memory(const IndexInfo *indexInfo, int64 memory);
static LaReason unsuitable_key(Relation index, LaBuildKey *key);
static bool may_use_collation(Relation index, int column);

/*
 * Why an index is left to core, which may use so many bytes of memory; if it is not,
 * describes its key, in the current context.
 */
LaReason
la_build_reason(Relation heap, Relation index, IndexInfo *indexInfo,
				int64 memory, LaBuildKey *key)
{
	LaReason	reason = unsuitable_relation(heap, indexInfo);

	if (reason == LA_REASON_NONE)
		reason = unsuitable_memory(indexInfo, memory);
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
 * Why an index is left to core, if memory is too little for all processes.
 */
static LaReason
unsuitable_memory(const IndexInfo *indexInfo, int64 memory)
{
	int			nworkers = indexInfo->ii_ParallelWorkers;

	if (memory < MIN_MEMORY)
		return LA_REASON_MEMORY;
	if (nworkers > 0 &&
		!la_parallel_has_memory(nworkers, la_index_build_extend_size,
								memory))
		return LA_REASON_MEMORY;
	return LA_REASON_NONE;
}

/*
 * Why an index with this key is left to core; if it is not, describes the key.
 */
static LaReason
unsuitable_key(Relation index, LaBuildKey *key)
{
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		if (may_use_collation(index, i) &&
			la_collation_is_shifted(index->rd_indcollation[i]))
			return LA_REASON_COLLATION;
	}
	if (!la_key_init(key, index))
		return LA_REASON_KEY_TYPE;
	if (la_collation_is_distrusted(la_key_guessed_collation(key)))
		return LA_REASON_COLLATION;
	return LA_REASON_NONE;
}

/*
 * Core does not look at the collation of a column that is compared byte by byte, so we do
 * not either: its locale may have another version by now, which would be warned of, or be gone.
 * Relies on bttext_pattern_sortsupport() in varlena.c.
 */
static bool
may_use_collation(Relation index, int column)
{
	Oid			compare = index_getprocid(index, column + 1, BTORDER_PROC);

	return compare != F_BTTEXT_PATTERN_CMP && compare != F_BTBPCHAR_PATTERN_CMP;
}
