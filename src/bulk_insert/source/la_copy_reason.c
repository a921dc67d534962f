/*-------------------------------------------------------------------------
 *
 * la_copy_reason.c
 *	  which COPY FROM is left to core
 *
 * What the statement and the table tell is found out before anything is done.  What is
 * evaluated for a row is known when the copy has begun; then core's CopyFrom() can
 * still go on in our place.
 *
 * Core lets rows wait, too, as many as a thousand, whatever the table's constraints
 * call.  Ours may wait longer, so they do only where no function looks for them.
 *
 * Reads CopyFromStateData of copyfrom_internal.h and ResultRelInfo of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "commands/copyfrom_internal.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/rel.h"
#include "utils/rls.h"

#include "bulk_insert/judge/la_insert_judge.h"
#include "bulk_insert/judge/la_insert_relation.h"
#include "bulk_insert/judge/la_insert_search.h"
#include "bulk_insert/judge/la_insert_tree.h"
#include "bulk_insert/judge/la_insert_type.h"
#include "bulk_insert/la_insert_feature.h"
#include "bulk_insert/source/la_copy.h"

static bool has_option(const CopyStmt *statement, const char *name);
static List *evaluated(CopyFromState state);
static bool has_volatile_check(Relation table, bool *runs_user_code);

/*
 * For the table of features: might we execute this COPY?  Where core would refuse it
 * before it looks at the table, it is to do so.  Relies on standard_ProcessUtility() in
 * utility.c and DoCopy() in copy.c.
 */
bool
la_copy_concerns(const LaUtility *utility)
{
	const CopyStmt *statement = (CopyStmt *) utility->statement->utilityStmt;

	return statement->is_from && la_feature_enabled(LA_FEATURE_BULK_INSERT) &&
		!XactReadOnly && !IsInParallelMode() &&
		(statement->filename == NULL ||
		 has_privs_of_role(GetUserId(), statement->is_program ?
						   ROLE_PG_EXECUTE_SERVER_PROGRAM :
						   ROLE_PG_READ_SERVER_FILES));
}

/*
 * Why a COPY into this table is left to core, as far as statement and table tell.
 * LA_REASON_DISABLED of something that is no table, or that core refuses.
 */
LaReason
la_copy_unsuitable(const LaUtility *utility, Relation table)
{
	const CopyStmt *statement = (CopyStmt *) utility->statement->utilityStmt;
	const TupleConstr *constraints = table->rd_att->constr;
	const ResultRelInfo target = {.ri_RelationDesc = table};
	bool		partitioned = table->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;
	LaReason	reason;

	if (table->rd_rel->relkind != RELKIND_RELATION && !partitioned)
		return LA_REASON_DISABLED;
	if (check_enable_rls(RelationGetRelid(table), InvalidOid, true) == RLS_ENABLED)
		return LA_REASON_CHECK_OPTION;
	if (has_option(statement, "freeze"))
		return LA_REASON_FREEZE;
	if (la_bulk_extend_size == 0 && !partitioned)
		return LA_REASON_BULK_EXTEND_SIZE;

	/* A condition on generated columns is refused. */
	if (statement->whereClause != NULL && constraints != NULL &&
		(constraints->has_generated_stored || constraints->has_generated_virtual))
		return LA_REASON_DISABLED;
	reason = la_insert_unsuitable_table(&target);
	if (reason == LA_REASON_NONE)
		reason = la_insert_unsuitable_triggers(table->trigdesc, partitioned);

	/* Core sends rows to the servers of foreign partitions in batches. */
	if (reason == LA_REASON_NONE && partitioned &&
		la_insert_tree_has_foreign(table))
		reason = LA_REASON_TABLE_AM;
	return reason;
}

static bool
has_option(const CopyStmt *statement, const char *name)
{
	ListCell   *lc;

	foreach(lc, statement->options)
	{
		if (strcmp(lfirst_node(DefElem, lc)->defname, name) == 0)
			return true;
	}
	return false;
}

/*
 * Why a COPY that has begun is left to core: a function that is called for a row could
 * look for the rows before.  Tells, too, whether functions are called that are not the
 * server's own.
 */
LaReason
la_copy_judge(CopyFromState state, bool *runs_user_code)
{
	TupleDesc	descriptor = RelationGetDescr(state->rel);
	LaInsertSearch search = {0};
	ListCell   *lc;
	bool		by_table;

	/* Input functions of columns that are read are called. */
	foreach(lc, state->attnumlist)
		la_insert_note_type(&search,
							TupleDescAttr(descriptor, lfirst_int(lc) - 1)->atttypid);

	if ((state->need_transcoding &&
		 la_insert_search_function(&search, state->conversion_proc)) ||
		la_insert_search((Node *) evaluated(state), &search) ||
		has_volatile_check(state->rel, &by_table))
		return LA_REASON_VOLATILE;
	*runs_user_code = by_table || search.functions != NIL ||
		search.types != NIL;
	return LA_REASON_NONE;
}

/*
 * What is evaluated besides to make a row of the input, and to decide whether it is
 * wanted: the condition and defaults.  Core sets none of a column that was dropped, not
 * even to NULL.
 */
static List *
evaluated(CopyFromState state)
{
	TupleDesc	descriptor = RelationGetDescr(state->rel);
	List	   *expressions = list_make1(state->whereClause);

	for (int i = 0; i < descriptor->natts; i++)
	{
		if (!TupleDescAttr(descriptor, i)->attisdropped &&
			state->defexprs[i] != NULL)
			expressions = lappend(expressions, state->defexprs[i]->expr);
	}
	return expressions;
}

/*
 * As la_insert_has_volatile_check(), with the triggers and indexes that a table is going to be
 * opened with; indexes of a table that is partitioned have no entries.  Core has a function
 * for it, which knows what belongs to a ResultRelInfo: relies on InitResultRelInfo() in
 * execMain.c.
 */
static bool
has_volatile_check(Relation table, bool *runs_user_code)
{
	ResultRelInfo *target = makeNode(ResultRelInfo);
	bool		found;

	InitResultRelInfo(target, table, 1, NULL, 0);
	if (table->rd_rel->relkind == RELKIND_RELATION)
		ExecOpenIndices(target, false);
	found = la_insert_has_volatile_check(target, runs_user_code);
	ExecCloseIndices(target);
	return found;
}
