/*-------------------------------------------------------------------------
 *
 * la_insert_mark.c
 *	  what the planner's hook leaves in the plan of an insert
 *
 * Whether an insert calls a function that could see its rows can be told from
 * the query, not from its plan.  What was found out has to reach the executor
 * with the plan, which may be kept and copied.  A ModifyTable has, for each table
 * that it changes, a list for the table's foreign data wrapper, which nobody
 * looks at when the table is not foreign (relies on ExecInitModifyTable() in
 * nodeModifyTable.c and make_modifytable() in createplan.c); the plan of an
 * insert of ours has the mark there.  Without it an insert is core's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "nodes/value.h"
#include "parser/parsetree.h"

#include "bulk_insert/judge/la_insert_change.h"
#include "bulk_insert/judge/la_insert_mark.h"
#include "la_compat.h"

/*
 * The first of the mark's five elements; an insert's table and what was judged follow.
 */
#define MARK "pg_lookahead insert " LA_BUILD_ID

/*
 * Marks a plan that inserts into one table, and returns no rows, with what was found
 * out about its query.
 */
void
la_insert_mark(PlannedStmt *plan, const LaJudgement *judgement)
{
	ModifyTable *insert = (ModifyTable *) plan->planTree;
	RangeTblEntry *target;

	if (plan->commandType != CMD_INSERT || !IsA(insert, ModifyTable) ||
		list_length(insert->resultRelations) != 1 ||
		list_length(insert->fdwPrivLists) != 1 ||
		linitial(insert->fdwPrivLists) != NIL)
		return;
	target = rt_fetch(linitial_int(insert->resultRelations), plan->rtable);
	if (target->relkind != RELKIND_RELATION &&
		target->relkind != RELKIND_PARTITIONED_TABLE)
		return;
	linitial(insert->fdwPrivLists) =
		list_make5(makeString(MARK), makeInteger((int) target->relid),
				   makeInteger(judgement->reason),
				   makeInteger(judgement->runs_user_code),
				   makeInteger(judgement->era));
}

/*
 * Is a plan marked, by this build of the library?
 */
bool
la_insert_is_marked(const ModifyTable *plan)
{
	const List *mark;

	if (list_length(plan->fdwPrivLists) != 1)
		return false;
	mark = linitial(plan->fdwPrivLists);
	return list_length(mark) == 5 && IsA(linitial(mark), String) &&
		strcmp(strVal(linitial(mark)), MARK) == 0;
}

/*
 * What was found out about the query of a marked plan.  A mark for another
 * table is not trusted, nor one of another era.
 */
LaReason
la_insert_judgement(const ModifyTable *plan, Oid target)
{
	const List *mark = linitial(plan->fdwPrivLists);

	int			era = intVal(llast(mark));

	if ((Oid) intVal(lsecond(mark)) != target)
		return LA_REASON_OTHER_EXTENSION;
	if (era != 0 && era != la_insert_era())
		return LA_REASON_PREPARED;
	return (LaReason) intVal(lthird(mark));
}

/*
 * Are functions called for its rows that are not the server's own?
 */
bool
la_insert_runs_user_code(const ModifyTable *plan)
{
	return intVal(lfourth((const List *) linitial(plan->fdwPrivLists))) != 0;
}
