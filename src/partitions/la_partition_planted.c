/*-------------------------------------------------------------------------
 *
 * la_partition_planted.c
 *	  partitions created by core's statement
 *
 * CREATE TABLE ... PARTITION OF looks at all partitions of the parent: does
 * the bound overlap one, is there a default partition?  It takes their
 * descriptor from the parent's relcache entry, and has the entry renewed at
 * its end, so that the next statement builds the descriptor again.  Where both
 * questions are answered already (la_partition_plan.c), each statement finds
 * an empty descriptor there, which costs nothing.
 *
 * The empty one is seen by nobody else.  It is in this process alone; no
 * other statement runs between the moment when it is planted and the one when
 * core renews the entry (where a function of users would run, an event
 * trigger's or one of la_partition_functions.c, the way is the native one); and an error has it thrown
 * away, as the caller has noted (la_partition_create.c).  Relies on
 * StorePartitionBound() in heap.c.  An entry that is renewed too early, by
 * anybody's invalidation, is a real one: that is only slower.
 *
 * Reads RelationData of rel.h, and changes it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "partitioning/partdesc.h"
#include "tcop/dest.h"
#include "tcop/utility.h"
#include "utils/rel.h"

#include "partitions/la_partition_planted.h"
#include "partitions/la_partition_way.h"

static void refuse_event_triggers(void);
static void execute(const LaPartitionRequest *request, const char *name, int i);

/*
 * Creates a partition that is known to overlap none.
 */
void
la_partition_planted_create(const LaPartitionRequest *request,
							const LaPlannedPartition *planned)
{
	static PartitionDescData no_partitions;
	Relation	parent = table_open(request->parent, NoLock);

	refuse_event_triggers();
	memset(&no_partitions, 0, sizeof(no_partitions));
	parent->rd_partdesc = &no_partitions;
	table_close(parent, NoLock);
	execute(request, planned->name, planned->number);
	refuse_event_triggers();
}

/*
 * There was none when the way was chosen, and no lock keeps others from creating one.  The
 * statement finds out itself which there are, so this is asked before it and after it.
 */
static void
refuse_event_triggers(void)
{
	if (la_partition_fires_event_trigger(CMDTAG_CREATE_TABLE))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("an event trigger was created while partitions were"),
				 errhint("Call the function again.")));
}

/*
 * Creates a partition as a user would.
 */
void
la_partition_native_create(const LaPartitionRequest *request,
						   const LaPlannedPartition *planned)
{
	execute(request, planned->name, planned->number);
}

static void
execute(const LaPartitionRequest *request, const char *name, int i)
{
	char	   *text = la_partition_statement_text(request, name, i);
	PlannedStmt *statement = makeNode(PlannedStmt);
	ErrorContextCallback callback;

	statement->commandType = CMD_UTILITY;
	statement->utilityStmt = (Node *) la_partition_statement_parse(request, text);
	statement->stmt_len = strlen(text);
	la_partition_statement_begin_blame(&callback, text);
	ProcessUtility(statement, text, false, PROCESS_UTILITY_QUERY, NULL, NULL,
				   None_Receiver, NULL);
	error_context_stack = callback.previous;
	CommandCounterIncrement();
}
