/*-------------------------------------------------------------------------
 *
 * la_insert_plan.c
 *	  what the plan of an insert calls besides what its query does
 *
 * A query is searched before it is planned (la_insert_search.c).  The plan has four things that
 * do not come up there:
 *
 * - Columns that the insert leaves out: the planner has a null there, and of a domain its CHECK is
 *   called for it.  Relies on expand_insert_targetlist() in preptlist.c.
 * - Foreign tables, which can be partitions of what the query names.  What reads them for core may
 *   fill in the defaults of their columns, and reads columns that nobody asks for: so does file_fdw.
 *   Relies on NextCopyFrom() in copyfromparse.c.
 * - Virtual columns of tables, whose expressions the planner puts into the query.  Core wants their
 *   functions to be its own, and immutable, but does not look at a cast to the type of the column.
 *   Relies on cookDefault() in heap.c and expand_virtual_generated_columns() in prepjointree.c.
 * - Functions that partitions are found by while the plan is executed.  It keeps them, also when the
 *   operator family has let go of them.  Relies on perform_pruning_base_step() in partprune.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/transam.h"
#include "access/tupdesc.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "bulk_insert/judge/la_insert_plan.h"
#include "bulk_insert/judge/la_insert_search.h"

/*
 * Has a table that is inserted into a column of a domain?  One that the query gives a value has
 * been found there.
 */
static bool
fills_domain(const List *columns)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		Oid			type = exprType((Node *) lfirst_node(TargetEntry, lc)->expr);

		if (type >= FirstUnpinnedObjectId && get_typtype(type) == TYPTYPE_DOMAIN)
			return true;
	}
	return false;
}

/*
 * Types of all columns, whoever asks for them.  They go into the mark: a row type can get a column.
 */
static bool
search_columns(TupleDesc columns, LaInsertSearch *search)
{
	for (int i = 0; i < columns->natts; i++)
	{
		if (la_insert_search_type(search, TupleDescAttr(columns, i)->atttypid))
			return true;
	}
	return false;
}

/*
 * What can be evaluated for a row that is read.  A default can call something else one day.  Texts
 * are read first: the relation cache may free them when catalogs are looked at.
 */
static bool
search_table(Relation table, LaInsertSearch *search)
{
	bool		is_foreign = table->rd_rel->relkind == RELKIND_FOREIGN_TABLE;
	TupleDesc	columns = RelationGetDescr(table);
	const TupleConstr *constraints = columns->constr;
	List	   *expressions = NIL;

	for (int i = 0; constraints != NULL && i < constraints->num_defval; i++)
	{
		const AttrDefault *value = &constraints->defval[i];
		char		kind = TupleDescAttr(columns, value->adnum - 1)->attgenerated;

		if (is_foreign || kind == ATTRIBUTE_GENERATED_VIRTUAL)
			expressions = lappend(expressions, stringToNode(value->adbin));
	}
	return (is_foreign && search_columns(columns, search)) ||
		la_insert_search((Node *) expressions, search);
}

/*
 * The planner has locked all tables of the plan.
 */
static bool
search_tables(const List *tables, LaInsertSearch *search)
{
	ListCell   *lc;

	foreach(lc, tables)
	{
		const RangeTblEntry *entry = lfirst_node(RangeTblEntry, lc);
		Relation	table;
		bool		found;

		if (entry->rtekind != RTE_RELATION)
			continue;
		table = table_open(entry->relid, NoLock);
		found = search_table(table, search);
		table_close(table, NoLock);
		if (found)
			return true;
	}
	return false;
}

static bool
search_steps(const List *steps, LaInsertSearch *search)
{
	ListCell   *lc;

	foreach(lc, steps)
	{
		if (!IsA(lfirst(lc), PartitionPruneStepOp))
			continue;
		foreach_oid(function, lfirst_node(PartitionPruneStepOp, lc)->cmpfns)
		{
			if (la_insert_search_function(search, function))
				return true;
		}
	}
	return false;
}

static bool
search_pruning(const List *infos, LaInsertSearch *search)
{
	foreach_node(PartitionPruneInfo, info, infos)
	{
		foreach_node(List, tables, info->prune_infos)
		{
			foreach_node(PartitionedRelPruneInfo, table, tables)
			{
				if (search_steps(table->exec_pruning_steps, search))
					return true;
			}
		}
	}
	return false;
}

/*
 * Can a function see the rows of an insert, or of a new table, that has this plan?  Its query
 * has been searched.
 */
bool
la_insert_search_plan(const PlannedStmt *plan, LaInsertSearch *search)
{
	return (IsA(plan->planTree, ModifyTable) &&
			fills_domain(outerPlan(plan->planTree)->targetlist)) ||
		search_tables(plan->rtable, search) ||
		search_pruning(plan->partPruneInfos, search);
}
