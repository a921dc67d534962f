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
 * and DoCopy() in copy.c, in their order.
 *
 * Which COPY is left to core is found out before anything is done, as far as the statement and
 * the table tell.  What is evaluated for a row is known when the copy has begun; then core's
 * CopyFrom() can still go on in our place.  Core lets rows wait, too, as many as a thousand,
 * whatever the table's constraints call.  Ours may wait longer, so they do only where no
 * function looks for them.
 *
 * Reads CopyFromStateData of copyfrom_internal.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "commands/copyfrom_internal.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "parser/parse_relation.h"
#include "utils/acl.h"
#include "utils/rel.h"
#include "utils/rls.h"

#include "bulk_insert/judge/la_insert_relation.h"
#include "bulk_insert/la_insert_feature.h"
#include "bulk_insert/source/la_copy.h"
#include "la_self_check.h"
#include "statistics/la_stats.h"

static LaSelfCheck self_check = {.subject = "COPY"};

/*
 * For LaHooks: might we execute this COPY?  Where core would refuse it
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
 * Why a COPY into this table is left to core, as far as statement and table tell.
 * LA_REASON_DISABLED of something that is no table, or that core refuses.
 */
static LaReason
unsuitable_copy(const CopyStmt *statement, Relation table)
{
	bool		partitioned = table->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;
	LaReason	reason;

	if (table->rd_rel->relkind != RELKIND_RELATION && !partitioned)
		return LA_REASON_DISABLED;
	if (check_enable_rls(RelationGetRelid(table), InvalidOid, true) == RLS_ENABLED)
		return LA_REASON_CHECK_OPTION;
	if (statement->whereClause != NULL || has_option(statement, "freeze") ||
		has_option(statement, "on_error"))
		return LA_REASON_COPY_OPTION;
	if (la_bulk_extend_size == 0 && !partitioned)
		return LA_REASON_BULK_EXTEND_SIZE;
	reason = la_insert_unsuitable_table(table, table->trigdesc);

	/* Core sends rows to the servers of foreign partitions in batches. */
	if (reason == LA_REASON_NONE && partitioned &&
		la_insert_has_foreign_partition(table))
		reason = LA_REASON_TABLE_AM;
	return reason;
}

/*
 * Checks a COPY as far as that goes without a row, above all that the user may insert into these
 * columns, and opens its input.
 */
static CopyFromState
open_input(ParseState *pstate, const CopyStmt *statement, Relation table)
{
	RTEPermissionInfo *wanted;
	ListCell   *lc;

	wanted = addRangeTableEntryForRelation(pstate, table, RowExclusiveLock,
										   NULL, false, false)->p_perminfo;
	wanted->requiredPerms = ACL_INSERT;
	foreach(lc, CopyGetAttnums(RelationGetDescr(table), table, statement->attlist))
		wanted->insertedCols =
		bms_add_member(wanted->insertedCols,
					   lfirst_int(lc) - FirstLowInvalidHeapAttributeNumber);
	ExecCheckPermissions(pstate->p_rtable, list_make1(wanted), true);
	return BeginCopyFrom(pstate, table, NULL, statement->filename,
						 statement->is_program, NULL, statement->attlist,
						 statement->options);
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

/*
 * Copies the rows, and returns their number.
 */
static uint64
copy_rows(const LaUtility *utility, Relation table)
{
	ParseState *pstate = make_parsestate(NULL);
	Node	   *statement = utility->statement->utilityStmt;
	LaReason	reason = LA_REASON_NONE;
	CopyFromState state;
	uint64		rows;

	check_stack_depth();
	if (utility->read_only)
		statement = copyObject(statement);
	pstate->p_sourcetext = utility->query_string;
	pstate->p_queryEnv = utility->environment;

	state = open_input(pstate, (CopyStmt *) statement, table);
	if (la_self_check(&self_check, as_expected(state, pstate, table), &reason))
		rows = la_copy_rows(state);
	else
	{
		la_stats_count(LA_FEATURE_BULK_INSERT, reason, false);
		rows = CopyFrom(state);
	}
	EndCopyFrom(state);
	free_parsestate(pstate);
	return rows;
}

/*
 * For LaHooks: executes a COPY FROM.  False when it is left to core, with
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
		unsuitable_copy(statement, table);
	if (reason != LA_REASON_NONE)
	{
		if (reason != LA_REASON_DISABLED)
			la_stats_count(LA_FEATURE_BULK_INSERT, reason, false);
		table_close(table, NoLock);
		return false;
	}

	rows = copy_rows(utility, table);
	table_close(table, NoLock);
	if (qc != NULL)
		SetQueryCompletion(qc, CMDTAG_COPY, rows);
	CommandCounterIncrement();
	return true;
}
