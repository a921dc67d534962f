/*-------------------------------------------------------------------------
 *
 * la_plan_children.c
 *	  the children of a plan node
 *
 * Plans of expressions are none: each is once in PlannedStmt.subplans, whereas many copies of an
 * expression may call it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "attach/la_plan_children.h"

static List *
members_of(const Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_Append:
			return ((const Append *) plan)->appendplans;
		case T_MergeAppend:
			return ((const MergeAppend *) plan)->mergeplans;
		case T_BitmapAnd:
			return ((const BitmapAnd *) plan)->bitmapplans;
		case T_BitmapOr:
			return ((const BitmapOr *) plan)->bitmapplans;
		case T_CustomScan:
			return ((const CustomScan *) plan)->custom_plans;
		default:
			return NIL;
	}
}

/*
 * Calls a walker for each child until it returns true, and returns whether it did.  Mirrors
 * planstate_tree_walker_impl() in nodeFuncs.c.
 */
bool
la_plan_children(const Plan *plan, LaPlanWalker walker, void *context)
{
	ListCell   *lc;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();

	if ((plan->lefttree != NULL && walker(plan->lefttree, context)) ||
		(plan->righttree != NULL && walker(plan->righttree, context)))
		return true;
	if (IsA(plan, SubqueryScan))
		return walker(((const SubqueryScan *) plan)->subplan, context);
	foreach(lc, members_of(plan))
	{
		if (walker(lfirst(lc), context))
			return true;
	}
	return false;
}
