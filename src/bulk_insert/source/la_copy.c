/*-------------------------------------------------------------------------
 *
 * la_copy.c
 *	  COPY FROM whose rows are collected
 *
 * A COPY reads a table's rows from a file, a program or the client.  Ours is core's but
 * for one function: where DoCopy() calls CopyFrom(), which puts the rows into the table,
 * la_copy_rows() is called (la_copy_rows.c).  Reading the input is core's, but for lines
 * that are plain (la_copy_line.c).
 *
 * DoCopy() has no hook, so the whole command is executed here, where core would be called
 * next (la_hooks.c).  What is done mirrors standard_ProcessUtility() in utility.c
 * and DoCopy() in copy.c, in their order.  Reads CopyFromStateData of copyfrom_internal.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "access/xact.h"
#include "commands/copyfrom_internal.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "utils/rel.h"

#include "bulk_insert/source/la_copy.h"
#include "la_self_check.h"
#include "statistics/la_stats.h"

static uint64 copy(const LaUtility *utility, Relation table);
static CopyFromState begin(ParseState *pstate, const CopyStmt *statement,
						   Relation table);
static Node *transform_condition(ParseState *pstate,
								 ParseNamespaceItem *target,
								 Node *condition);
static void check_permissions(ParseState *pstate, ParseNamespaceItem *target,
							  Relation table, List *columns);
static bool as_expected(CopyFromState state, const ParseState *pstate,
						Relation table);

static LaSelfCheck self_check = {.subject = "COPY"};

/*
 * For the table of features: executes a COPY FROM.  False when it is left to core, with
 * nothing done but the table's lock taken, which core takes first, too.
 */
bool
la_copy_run(const LaUtility *utility, QueryCompletion *qc)
{
	const CopyStmt *statement = (CopyStmt *) utility->statement->utilityStmt;
	Relation	table;
	LaReason	reason;
	uint64		rows;

	table = table_openrv_extended(statement->relation, RowExclusiveLock, true);
	if (table == NULL)
		return false;
	reason = self_check.failed ? LA_REASON_SELF_CHECK :
		la_copy_unsuitable(utility, table);
	if (reason != LA_REASON_NONE)
	{
		if (reason != LA_REASON_DISABLED)
			la_stats_count(LA_FEATURE_BULK_INSERT, reason, false);
		table_close(table, NoLock);
		return false;
	}

	rows = copy(utility, table);
	table_close(table, NoLock);
	if (qc != NULL)
		SetQueryCompletion(qc, CMDTAG_COPY, rows);
	CommandCounterIncrement();
	return true;
}

/*
 * Returns the number of rows.
 */
static uint64
copy(const LaUtility *utility, Relation table)
{
	ParseState *pstate = make_parsestate(NULL);
	Node	   *statement = utility->statement->utilityStmt;
	CopyFromState state;
	LaReason	reason = LA_REASON_NONE;
	bool		runs_user_code = false;
	uint64		rows;

	check_stack_depth();
	if (utility->read_only)
		statement = copyObject(statement);
	pstate->p_sourcetext = utility->query_string;
	pstate->p_queryEnv = utility->environment;

	state = begin(pstate, (CopyStmt *) statement, table);
	if (la_self_check(&self_check, as_expected(state, pstate, table), &reason))
		reason = la_copy_judge(state, &runs_user_code);
	la_stats_count(LA_FEATURE_BULK_INSERT, reason, false);
	if (reason == LA_REASON_NONE)
		rows = la_copy_rows(state, runs_user_code);
	else
		rows = CopyFrom(state);
	EndCopyFrom(state);
	free_parsestate(pstate);
	return rows;
}

/*
 * Checks a COPY as far as that goes without a row, and opens its input.
 */
static CopyFromState
begin(ParseState *pstate, const CopyStmt *statement, Relation table)
{
	ParseNamespaceItem *target;
	Node	   *condition;

	target = addRangeTableEntryForRelation(pstate, table, RowExclusiveLock,
										   NULL, false, false);
	target->p_perminfo->requiredPerms = ACL_INSERT;
	condition = transform_condition(pstate, target, statement->whereClause);
	check_permissions(pstate, target, table, statement->attlist);
	return BeginCopyFrom(pstate, table, condition, statement->filename,
						 statement->is_program, NULL, statement->attlist,
						 statement->options);
}

/*
 * WHERE, or NULL, as an implicit AND.  The table has no generated columns, which
 * the condition must not have.
 */
static Node *
transform_condition(ParseState *pstate, ParseNamespaceItem *target,
					Node *condition)
{
	if (condition == NULL)
		return NULL;
	addNSItemToQuery(pstate, target, false, true, true);
	condition = transformExpr(pstate, condition, EXPR_KIND_COPY_WHERE);
	condition = coerce_to_boolean(pstate, condition, "WHERE");
	assign_expr_collations(pstate, condition);
	condition = eval_const_expressions(NULL, condition);
	condition = (Node *) canonicalize_qual((Expr *) condition, false);
	return (Node *) make_ands_implicit((Expr *) condition);
}

/*
 * May the user insert into these columns?
 */
static void
check_permissions(ParseState *pstate, ParseNamespaceItem *target,
				  Relation table, List *columns)
{
	RTEPermissionInfo *wanted = target->p_perminfo;
	List	   *numbers = CopyGetAttnums(RelationGetDescr(table), table, columns);
	ListCell   *lc;

	foreach(lc, numbers)
		wanted->insertedCols =
		bms_add_member(wanted->insertedCols,
					   lfirst_int(lc) - FirstLowInvalidHeapAttributeNumber);
	ExecCheckPermissions(pstate->p_rtable, list_make1(wanted), true);
}

/*
 * Has core filled the structure as we know it?
 */
static bool
as_expected(CopyFromState state, const ParseState *pstate, Relation table)
{
	return state->rel == table &&
		state->cur_relname == RelationGetRelationName(table) &&
		state->range_table == pstate->p_rtable &&
		state->rteperminfos == pstate->p_rteperminfos &&
		GetMemoryChunkContext(state->defexprs) == state->copycontext &&
		(state->opts.binary ||
		 (state->input_buf == state->raw_buf) == !state->need_transcoding);
}
