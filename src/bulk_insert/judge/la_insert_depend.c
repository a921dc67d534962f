/*-------------------------------------------------------------------------
 *
 * la_insert_depend.c
 *	  when the plan of an insert must be made anew
 *
 * Core makes a kept plan anew when a function changes that the plan calls.  Our
 * judgement also rests on what it does not name: types, and the functions that belong to
 * them.  So it is made anew when one of these changes, as core notes what a plan depends on.
 * Relies on PlanCacheObjectCallback() in plancache.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_proc.h"
#include "nodes/makefuncs.h"
#include "utils/syscache.h"

#include "bulk_insert/judge/la_insert_depend.h"

static void depend_on(PlannedStmt *plan, int cache, Oid object);

/*
 * Has a plan made anew when something changes that was looked at.
 */
void
la_insert_depend(PlannedStmt *plan, const LaJudgement *judgement)
{
	ListCell   *lc;

	foreach(lc, judgement->functions)
		depend_on(plan, PROCOID, lfirst_oid(lc));
	foreach(lc, judgement->types)
		depend_on(plan, TYPEOID, lfirst_oid(lc));
	plan->relationOids = list_concat(plan->relationOids, judgement->tables);
}

static void
depend_on(PlannedStmt *plan, int cache, Oid object)
{
	PlanInvalItem *item = makeNode(PlanInvalItem);

	item->cacheId = cache;
	item->hashValue = GetSysCacheHashValue1(cache, ObjectIdGetDatum(object));
	plan->invalItems = lappend(plan->invalItems, item);
}
