/*-------------------------------------------------------------------------
 *
 * la_compat.h
 *	  the only place that knows PostgreSQL versions
 *
 * The extension reads private structures and repeats functions of core (see
 * docs/core-private-parts.md), so a major release that nobody has read is
 * refused at compile time.  Minor releases keep those structures as a rule;
 * la_module.c logs one line when it runs on a newer one than it was built
 * against, and every reader of a private structure checks it at run time
 * before it trusts it.
 *
 * For a major release that has been read in part only, features whose parts
 * of core nobody has compared yet step aside: they compile, and are never
 * attached (la_feature_ported).  Functions that differ are here, with what
 * all versions need as arguments.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_COMPAT_H
#define LA_COMPAT_H

#if PG_VERSION_NUM < 180000 || PG_VERSION_NUM >= 200000
#error "pg_lookahead needs the header files of PostgreSQL 18 or 19"
#endif

#include "access/amapi.h"
#include "access/genam.h"
#include "access/heapam.h"
#include "access/tableam.h"
#include "catalog/pg_collation.h"
#include "commands/explain_state.h"
#include "nodes/execnodes.h"
#include "optimizer/pathnode.h"
#include "optimizer/plancat.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/dsm_registry.h"
#include "storage/lwlock.h"
#include "utils/pg_locale.h"
#include "utils/rel.h"

#if PG_VERSION_NUM >= 190000
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "utils/syscache.h"
#endif

#ifndef LA_BUILD_ID
#define LA_BUILD_ID "unidentified build"
#endif

#define LA_VERSION "0.2.0"

/*
 * The features, a bit for each LaFeature, whose private structures and repeated
 * functions have been read in this major release.  Whoever ports one tries it
 * by COPT=-DLA_PORTED_FEATURES=...
 */
#ifndef LA_PORTED_FEATURES
#if PG_VERSION_NUM >= 190000
#define LA_PORTED_FEATURES 0
#else
#define LA_PORTED_FEATURES (~0)
#endif
#endif

/*
 * Whether partitions are created by other ways than core's statement: the
 * functions by which core creates a table have been read in this major release.
 */
#if PG_VERSION_NUM < 190000
#define LA_PARTITIONS_PORTED
#endif

/*
 * Beginning scans.  19 takes flags, hints that come from the node's plan; none
 * is given.
 */
static inline TableScanDesc
la_compat_beginscan(Relation table, Snapshot snapshot)
{
#if PG_VERSION_NUM >= 190000
	return table_beginscan(table, snapshot, 0, NULL, SO_NONE);
#else
	return table_beginscan(table, snapshot, 0, NULL);
#endif
}

static inline TableScanDesc
la_compat_beginscan_bm(Relation table, Snapshot snapshot)
{
#if PG_VERSION_NUM >= 190000
	return table_beginscan_bm(table, snapshot, 0, NULL, SO_NONE);
#else
	return table_beginscan_bm(table, snapshot, 0, NULL);
#endif
}

/*
 * Of an index scan node; its counters are behind a pointer in 19.  Reads
 * IndexScanState and IndexOnlyScanState of execnodes.h.
 */
static inline IndexScanDesc
la_compat_index_beginscan(IndexScanState *node)
{
	return index_beginscan(node->ss.ss_currentRelation, node->iss_RelationDesc,
						   node->ss.ps.state->es_snapshot,
#if PG_VERSION_NUM >= 190000
						   node->iss_Instrument,
						   node->iss_NumScanKeys, node->iss_NumOrderByKeys,
						   SO_NONE);
#else
						   &node->iss_Instrument,
						   node->iss_NumScanKeys, node->iss_NumOrderByKeys);
#endif
}

static inline IndexScanDesc
la_compat_index_only_beginscan(IndexOnlyScanState *node)
{
	return index_beginscan(node->ss.ss_currentRelation, node->ioss_RelationDesc,
						   node->ss.ps.state->es_snapshot,
#if PG_VERSION_NUM >= 190000
						   node->ioss_Instrument,
						   node->ioss_NumScanKeys, node->ioss_NumOrderByKeys,
						   SO_NONE);
#else
						   &node->ioss_Instrument,
						   node->ioss_NumScanKeys, node->ioss_NumOrderByKeys);
#endif
}

/*
 * How often a scan has searched its index, of the counters of an
 * IndexScanState, IndexOnlyScanState or BitmapIndexScanState; NULL where it
 * does not count, as in 19 without EXPLAIN.
 */
#if PG_VERSION_NUM >= 190000
#define la_compat_searches(counters) ((counters) != NULL ? &(counters)->nsearches : NULL)
#else
#define la_compat_searches(counters) (&(counters).nsearches)
#endif

/*
 * In 19 a parallel scan can begin in the middle; ours are of whole tables.
 */
static inline void
la_compat_parallelscan_init(Relation table, ParallelBlockTableScanWorker own,
							ParallelBlockTableScanDesc shared)
{
#if PG_VERSION_NUM >= 190000
	table_block_parallelscan_startblock_init(table, own, shared,
											 InvalidBlockNumber,
											 InvalidBlockNumber);
#else
	table_block_parallelscan_startblock_init(table, own, shared);
#endif
}

/*
 * 19 has values of options checked that auto_explain takes from a setting.
 */
static inline void
la_compat_register_boolean_explain_option(const char *name,
										  ExplainOptionHandler handler)
{
#if PG_VERSION_NUM >= 190000
	RegisterExtensionExplainOption(name, handler, GUCCheckBooleanExplainOption);
#else
	RegisterExtensionExplainOption(name, handler);
#endif
}

/*
 * The hook that runs when the planner looks at a table.  Of its arguments,
 * "root" and "rel" have one name in all versions.
 */
#if PG_VERSION_NUM >= 190000
typedef build_simple_rel_hook_type LaRelationHook;
#define la_relation_hook build_simple_rel_hook
#define LA_RELATION_HOOK_PARAMETERS \
	PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte
#define LA_RELATION_HOOK_ARGUMENTS root, rel, rte
#else
typedef get_relation_info_hook_type LaRelationHook;
#define la_relation_hook get_relation_info_hook
#define LA_RELATION_HOOK_PARAMETERS \
	PlannerInfo *root, Oid relation, bool inhparent, RelOptInfo *rel
#define LA_RELATION_HOOK_ARGUMENTS root, relation, inhparent, rel
#endif

/*
 * The hook that runs instead of the planner.  Its argument "parse" has one name
 * in all versions.
 */
#if PG_VERSION_NUM >= 190000
#define LA_PLANNER_HOOK_PARAMETERS \
	Query *parse, const char *query_string, int cursor_options, \
	ParamListInfo params, ExplainState *es
#define LA_PLANNER_HOOK_ARGUMENTS \
	parse, query_string, cursor_options, params, es
#else
#define LA_PLANNER_HOOK_PARAMETERS \
	Query *parse, const char *query_string, int cursor_options, \
	ParamListInfo params
#define LA_PLANNER_HOOK_ARGUMENTS parse, query_string, cursor_options, params
#endif

/*
 * Changes the ambuild of an index's relcache entry.  In 19 the routine is that
 * of all indexes, so the entry gets a copy, which is freed with it.
 */
static inline void
la_compat_set_ambuild(Relation index, ambuild_function ambuild)
{
#if PG_VERSION_NUM >= 190000
	IndexAmRoutine *routine = MemoryContextAlloc(index->rd_indexcxt,
												 sizeof(IndexAmRoutine));

	*routine = *index->rd_indam;
	routine->ambuild = ambuild;
	index->rd_indam = routine;
#else
	index->rd_indam->ambuild = ambuild;
#endif
}

/*
 * Who compares texts of a collation: COLLPROVIDER_ICU, ..._LIBC, ..._BUILTIN.
 * Reads pg_locale_struct of pg_locale.h.
 */
static inline char
la_compat_collation_provider(Oid collation)
{
#if PG_VERSION_NUM >= 190000
	HeapTuple	tuple;
	char		provider;

	tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for collation %u", collation);
	provider = ((Form_pg_collation) GETSTRUCT(tuple))->collprovider;
	ReleaseSysCache(tuple);
	if (provider != COLLPROVIDER_DEFAULT)
		return provider;

	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for database %u", MyDatabaseId);
	provider = ((Form_pg_database) GETSTRUCT(tuple))->datlocprovider;
	ReleaseSysCache(tuple);
	return provider;
#else
	return pg_newlocale_from_collation(collation)->provider;
#endif
}

static inline void
la_compat_set_checksum(Page page, BlockNumber block)
{
#if PG_VERSION_NUM >= 190000
	PageSetChecksum(page, block);
#else
	PageSetChecksumInplace(page, block);
#endif
}

/*
 * Shared memory by name, and the names of its locks, which in 18 each process
 * has to make known to itself.
 */
#if PG_VERSION_NUM >= 190000
#define LA_SEGMENT_INIT_PARAMETERS void *ptr, void *arg
#define la_compat_named_segment(name, size, init, found) \
	GetNamedDSMSegment(name, size, init, found, NULL)
#else
#define LA_SEGMENT_INIT_PARAMETERS void *ptr
#define la_compat_named_segment(name, size, init, found) \
	GetNamedDSMSegment(name, size, init, found)
#endif

static inline int
la_compat_new_tranche(const char *name)
{
#if PG_VERSION_NUM >= 190000
	return LWLockNewTrancheId(name);
#else
	return LWLockNewTrancheId();
#endif
}

static inline void
la_compat_name_tranche(int tranche, const char *name)
{
#if PG_VERSION_NUM < 190000
	LWLockRegisterTranche(tranche, name);
#endif
}

#endif							/* LA_COMPAT_H */
