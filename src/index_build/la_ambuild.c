/*-------------------------------------------------------------------------
 *
 * la_ambuild.c
 *	  puts our build function in the place of core's
 *
 * index_build() is behind every command that builds an
 * index: CREATE INDEX, REINDEX, constraints, CLUSTER, VACUUM FULL, rewriting
 * ALTER TABLE, concurrently or not.  It calls the ambuild of the index's
 * relcache entry, whose routine is a private copy.  Just before that, it
 * asks plan_create_index_workers() for a number of parallel workers, which
 * runs get_relation_info_hook for the table.  There we look for btree
 * indexes of that table on which this backend holds a lock, as it must on
 * the one it is about to build, and change their ambuild.  The catalog does
 * not change, and a relcache entry that is rebuilt is core's again.  Relies on
 * index_build() in index.c and plan_create_index_workers() in planner.c.
 *
 * The changed entry may live on and be used with other settings: our
 * function looks at them each time (la_build.c).
 *
 * plan_create_index_workers() returns at once if
 * max_parallel_maintenance_workers is 0: then core builds.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "catalog/pg_am_d.h"
#include "parser/parsetree.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "index_build/la_build.h"
#include "index_build/la_build_feature.h"
#include "la_compat.h"
#include "la_feature.h"

const LaFeatureMethods la_index_build_methods = {
	.info = &la_index_build_feature,
};

/*
 * The planner has looked at a table.  If for an index build (a query without a join tree is the
 * dummy that plan_create_index_workers() makes), changes the ambuild of the table's btree indexes
 * that we have locked.
 */
void
la_ambuild_plan_relation(PlannerInfo *root, RelOptInfo *rel)
{
	Relation	heap;
	List	   *indexes;
	ListCell   *lc;

	if (root->parse->jointree != NULL || root->parse->commandType != CMD_SELECT ||
		!la_feature_enabled(LA_FEATURE_INDEX_BUILD))
		return;
	heap = RelationIdGetRelation(planner_rt_fetch(rel->relid, root)->relid);
	if (!RelationIsValid(heap))
		return;
	indexes = RelationGetIndexList(heap);
	foreach(lc, indexes)
	{
		Relation	index;

		if (!CheckRelationOidLockedByMe(lfirst_oid(lc), AccessShareLock, true))
			continue;
		index = RelationIdGetRelation(lfirst_oid(lc));
		if (!RelationIsValid(index))
			continue;
		if (index->rd_rel->relam == BTREE_AM_OID &&
			index->rd_indam->ambuild == btbuild)
			la_compat_set_ambuild(index, la_build);
		RelationClose(index);
	}
	list_free(indexes);
	RelationClose(heap);
}
