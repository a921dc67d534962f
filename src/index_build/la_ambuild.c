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
 * max_parallel_maintenance_workers is 0.  A ProcessUtility_hook therefore
 * raises it to 1 while a command runs that can build indexes, and the other
 * hook sees to it that no build gets a worker by that, whoever does it.
 * Commands that such a command runs in turn, from event triggers or from
 * functions of an index, find the user's value.
 *
 * Reads guc_stack and config_generic of guc_tables.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "catalog/pg_am_d.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "parser/parsetree.h"
#include "storage/lmgr.h"
#include "utils/guc_tables.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "index_build/la_build.h"
#include "index_build/la_build_feature.h"
#include "la_compat.h"
#include "la_feature.h"

/*
 * True while max_parallel_maintenance_workers is 1 by our doing, and the
 * newest value saved for a rollback at the time when we changed it.
 */
static bool workers_raised = false;
static GucStack *saved_before_raise;

static void take_over_table(PlannerInfo *root, RelOptInfo *rel);
static void take_over_indexes(Oid relation);
static bool begin_command(Node *statement);
static bool may_build_index(Node *statement);
static void raise_workers(bool raise);

const LaFeatureMethods la_index_build_methods = {
	.info = &la_index_build_feature,
	.plan_relation = take_over_table,
	.begin_utility = begin_command,
	.end_utility = raise_workers,
};

/*
 * The planner has looked at a table: a query without a join tree is the dummy
 * that plan_create_index_workers() makes.
 */
static void
take_over_table(PlannerInfo *root, RelOptInfo *rel)
{
	if (root->parse->jointree != NULL || root->parse->commandType != CMD_SELECT)
		return;
	if (workers_raised)
		rel->rel_parallel_workers = 0;
	if (la_feature_enabled(LA_FEATURE_INDEX_BUILD))
		take_over_indexes(planner_rt_fetch(rel->relid, root)->relid);
}

/*
 * Changes the ambuild of the table's btree indexes that we have locked.
 */
static void
take_over_indexes(Oid relation)
{
	Relation	heap = RelationIdGetRelation(relation);
	List	   *indexes;
	ListCell   *lc;

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

/*
 * A command begins: see the head of this file.  Returns whether workers are raised
 * by one around it, for its end.
 */
static bool
begin_command(Node *statement)
{
	bool		raised_before = workers_raised;

	raise_workers(la_feature_enabled(LA_FEATURE_INDEX_BUILD) &&
				  may_build_index(statement));
	return raised_before;
}

static struct config_generic *
workers_setting(void)
{
	return find_option("max_parallel_maintenance_workers", false, false, ERROR);
}

/*
 * Makes the setting 1 if it is 0, or 0 again if that was our doing.  It is
 * changed by assignment: the transactions that a concurrent build goes
 * through would each undo a SET LOCAL.
 */
static void
raise_workers(bool raise)
{
	if (raise && !workers_raised && max_parallel_maintenance_workers == 0)
	{
		saved_before_raise = workers_setting()->stack;
		max_parallel_maintenance_workers = 1;
		workers_raised = true;
	}
	else if (!raise && workers_raised)
	{
		/* unless set_config() has changed it meanwhile */
		if (max_parallel_maintenance_workers == 1)
			max_parallel_maintenance_workers = 0;

		/*
		 * A set_config() meanwhile has saved our value, for the case that its
		 * transaction is rolled back: what it should have saved is the
		 * user's.
		 */
		for (GucStack *saved = workers_setting()->stack;
			 saved != NULL && saved != saved_before_raise; saved = saved->prev)
		{
			if (saved->prior.val.intval == 1)
				saved->prior.val.intval = 0;
		}
		workers_raised = false;
	}
}

static bool
is_vacuum_full(VacuumStmt *statement)
{
	ListCell   *lc;

	foreach(lc, statement->options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, "full") == 0)
			return defGetBoolean(option);
	}
	return false;
}

/*
 * Commands that come to index_build() with rows to index.  Plain VACUUM is
 * not among them, and must not be: it takes workers by the same setting.
 */
static bool
may_build_index(Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_AlterTableStmt:
		case LA_CLUSTER_STATEMENT:
		case T_IndexStmt:
		case T_RefreshMatViewStmt:
		case T_ReindexStmt:
			return true;
		case T_VacuumStmt:
			return is_vacuum_full((VacuumStmt *) statement);
		default:
			return false;
	}
}
