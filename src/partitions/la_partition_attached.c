/*-------------------------------------------------------------------------
 *
 * la_partition_attached.c
 *	  partitions created as tables of their own, and attached by core
 *
 * For parents whose row triggers and foreign keys partitions get, too: the
 * functions by which core clones foreign keys are called by nothing else than
 * CREATE TABLE ... PARTITION OF, under an AccessExclusiveLock of the parent, and
 * ALTER TABLE ... ATTACH PARTITION, under a ShareUpdateExclusiveLock.  So
 * a table that is the partition in all but what comes from the parent is made
 * (la_partition_table.c), and attached to it: core then marks columns and
 * constraints as the parent's, and clones its indexes, triggers and foreign
 * keys, as it does for a new partition.  Relies on ATExecAttachPartition(),
 * MergeAttributesIntoExisting() and MergeConstraintsIntoExisting() in
 * tablecmds.c.
 *
 * It looks at all partitions of the parent for each, and has rows of the new
 * table checked, which has none.  So this is the way for one partition while
 * others use the parent, and not for thousands.
 *
 * Tables that foreign keys of the parent reference, or that have foreign keys
 * to it, are locked against writes until the transaction ends
 * (la_partition_references.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/event_trigger.h"
#include "commands/tablecmds.h"
#include "nodes/makefuncs.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "la_compat.h"
#include "la_sql_function.h"
#include "partitions/la_partition_attached.h"
#include "partitions/la_partition_statement.h"
#include "partitions/la_partition_table.h"

/* What all partitions have in common. */
struct LaPartitionAttached
{
	const LaPartitionRequest *request;
	LaPartitionTable *table;
};

#ifdef LA_PARTITIONS_PORTED

/*
 * Checks and reads what all partitions have in common.
 */
LaPartitionAttached *
la_partition_attached_begin(const LaPartitionRequest *request, Relation parent)
{
	LaPartitionAttached *attached = palloc_object(LaPartitionAttached);

	attached->request = request;
	attached->table = la_partition_table_read(request, parent, false);
	return attached;
}

static AlterTableStmt *
form_statement(PartitionBoundSpec *bound, char *schema, char *name)
{
	AlterTableStmt *statement = makeNode(AlterTableStmt);
	AlterTableCmd *command = makeNode(AlterTableCmd);
	PartitionCmd *partition = makeNode(PartitionCmd);

	partition->name = makeRangeVar(schema, name, -1);
	partition->bound = bound;
	command->subtype = AT_AttachPartition;
	command->def = (Node *) partition;
	command->behavior = DROP_RESTRICT;
	/* Of the relation only whether its children are meant is asked. */
	statement->relation = makeRangeVar(NULL, NULL, -1);
	statement->cmds = list_make1(command);
	statement->objtype = OBJECT_TABLE;
	return statement;
}

/*
 * Has the statement executed without being one: event triggers do not fire
 * for it, as for the other functions of core that are called here.  What they
 * would be told goes where nobody looks, and not to the command that called us,
 * if one did.  Mirrors ProcessUtilitySlow() in utility.c.
 */
static void
alter_table(AlterTableStmt *statement, AlterTableUtilityContext *context)
{
	bool		is_collected = EventTriggerBeginCompleteQuery();

	PG_TRY();
	{
		EventTriggerAlterTableStart((Node *) statement);
		EventTriggerAlterTableRelid(context->relid);
		AlterTable(statement, ShareUpdateExclusiveLock, context);
		EventTriggerAlterTableEnd();
	}
	PG_FINALLY();
	{
		if (is_collected)
			EventTriggerEndCompleteQuery();
	}
	PG_END_TRY();
}

/*
 * Creates one partition, in the current memory context, of which nothing is
 * needed afterwards.  Core finds out whether its bound overlaps one, and what
 * of the default partition would belong to it.
 */
void
la_partition_attached_create(const LaPartitionAttached *attached,
							 const LaPlannedPartition *planned)
{
	const LaPartitionRequest *request = attached->request;
	Relation	created = la_partition_table_begin(attached->table,
												   planned->name);
	char	   *schema = get_namespace_name(RelationGetNamespace(created));
	char	   *query = la_partition_statement_text(request, planned->name,
													planned->number);
	AlterTableUtilityContext context = {.queryString = query};
	ErrorContextCallback callback;
	int			level;

	la_partition_table_end(attached->table, created);
	context.pstmt = makeNode(PlannedStmt);
	context.relid = request->parent;
	la_partition_statement_begin_blame(&callback, query);

	/*
	 * A foreign key is checked by a query, though there is no row: as
	 * PARTITION OF, which checks none, this is not to fail by a policy for
	 * rows of the other table.
	 */
	level = NewGUCNestLevel();
	la_sql_argument_set("row_security", "on");
	alter_table(form_statement(la_partition_statement_parse(request, query)->partbound,
							   schema, planned->name),
				&context);
	AtEOXact_GUC(true, level);
	error_context_stack = callback.previous;
	CommandCounterIncrement();
}

#endif							/* LA_PARTITIONS_PORTED */
