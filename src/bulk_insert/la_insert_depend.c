/*-------------------------------------------------------------------------
 *
 * la_insert_depend.c
 *	  when the plan of an insert must be made anew
 *
 * Core makes a kept plan anew when a function changes that the plan calls.  Our
 * judgement also rests on functions that it does not name: those of a domain's CHECK,
 * of an aggregate, of a type.  So it is made anew when one of these changes, or one of
 * the types; as core notes what a plan depends on.  Relies on PlanCacheObjectCallback()
 * in plancache.c.
 *
 * Casts and operator classes that belong to a type can be made later, without a change of
 * the type.  That is rare, and core does not make plans anew for it, nor parse their statements again,
 * which could change what they do: it begins another era, and a judgement on types of
 * users holds for one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "catalog/pg_proc.h"
#include "nodes/makefuncs.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "bulk_insert/la_insert_depend.h"

/* What la_insert_type.c looks at that belongs to a type and is not in its row. */
static const int caches[] = {CASTSOURCETARGET, CLAOID, AMOPOPID, AMPROCNUM};

/* Never 0, which is no era. */
static int	era = 1;

static void begin_era(Datum argument, int cache, uint32 hash);
static void depend_on(PlannedStmt *plan, int cache, Oid object);

/*
 * The era that we are in.
 */
int
la_insert_era(void)
{
	static bool listening = false;

	if (!listening)
	{
		listening = true;
		for (int i = 0; i < lengthof(caches); i++)
			CacheRegisterSyscacheCallback(caches[i], begin_era, (Datum) 0);
	}
	return era;
}

/*
 * Syscache callback.
 */
static void
begin_era(Datum argument, int cache, uint32 hash)
{
	era = era == INT_MAX ? 1 : era + 1;
}

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
	{
		Oid			row = get_typ_typrelid(lfirst_oid(lc));

		depend_on(plan, TYPEOID, lfirst_oid(lc));
		if (OidIsValid(row))
			plan->relationOids = lappend_oid(plan->relationOids, row);
	}
}

static void
depend_on(PlannedStmt *plan, int cache, Oid object)
{
	PlanInvalItem *item = makeNode(PlanInvalItem);

	item->cacheId = cache;
	item->hashValue = GetSysCacheHashValue1(cache, ObjectIdGetDatum(object));
	plan->invalItems = lappend(plan->invalItems, item);
}
