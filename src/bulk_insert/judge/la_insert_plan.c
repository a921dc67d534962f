/*-------------------------------------------------------------------------
 *
 * la_insert_plan.c
 *	  what the plan of an insert calls besides what its query does
 *
 * A query is searched before it is planned (la_insert_search.c).  For a column that the insert
 * leaves out the planner has a null then, and of a domain its CHECK is called for it.  Relies on
 * expand_insert_targetlist() in preptlist.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "bulk_insert/judge/la_insert_plan.h"

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
 * Can a function see the rows of an insert, or of a new table, that has this plan?  Its query
 * has been searched.
 */
bool
la_insert_search_plan(const PlannedStmt *plan, LaInsertSearch *search)
{
	return IsA(plan->planTree, ModifyTable) &&
		fills_domain(outerPlan(plan->planTree)->targetlist);
}
