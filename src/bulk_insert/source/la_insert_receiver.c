/*-------------------------------------------------------------------------
 *
 * la_insert_receiver.c
 *	  queries whose rows become a new table
 *
 * CREATE TABLE AS, SELECT INTO and materialized views: no plan node inserts; rows go
 * to a receiver, which puts each into the table.  While such a query runs it has a
 * receiver of ours, which passes the first rows on to core's, and appends those after
 * a few MB to the file by itself (la_insert_file.c).
 *
 * A function of the query could read the new table, or insert into it, so the query is
 * judged as that of an INSERT is, and it must not call functions of users.  Its plan is
 * executed at once after it was made; that of a prepared statement, made at another time,
 * is not judged.
 *
 * Core's receivers have structures that are private to its files; they are repeated here, and
 * what is read is checked against what is known otherwise before it is used.  Relies on
 * CreateIntoRelDestReceiver() in createas.c and CreateTransientRelDestReceiver() in
 * matview.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/hio.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "nodes/execnodes.h"
#include "nodes/primnodes.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "bulk_insert/la_insert_feature.h"
#include "bulk_insert/page/la_insert_file.h"
#include "bulk_insert/source/la_insert_receiver.h"
#include "la_self_check.h"
#include "statistics/la_stats.h"

/*
 * Core's DR_intorel.
 */
typedef struct IntoReceiver
{
	DestReceiver pub;
	IntoClause *into;
	Relation	rel;
	ObjectAddress reladdr;
	CommandId	output_cid;
	int			ti_options;
	BulkInsertState bistate;
} IntoReceiver;

/*
 * Core's DR_transientrel.
 */
typedef struct TransientReceiver
{
	DestReceiver pub;
	Oid			transientoid;
	Relation	transientrel;
	CommandId	output_cid;
	int			ti_options;
	BulkInsertState bistate;
} TransientReceiver;

/*
 * What such a receiver does with rows.
 */
typedef struct CoreReceiver
{
	Relation	table;
	CommandId	cid;
	int			options;		/* of heap_insert() */
	BulkInsertState bulk;
} CoreReceiver;

/*
 * Our receiver.
 */
typedef struct Receiver
{
	DestReceiver pub;			/* first, so that one is the other */
	DestReceiver *core;
	QueryDesc  *query;
	CoreReceiver target;
	LaInsertFile *file;			/* once rows go there, or NULL */
	LaInsertReport report;
} Receiver;

static LaSelfCheck self_check = {.subject = "new tables"};

/* How many statements that fill a new table are being executed. */
static int	depth = 0;

/* The plan that was made last within one, and what became of it. */
static LaInsertReport last_report;

/*
 * Does a utility command fill a new table?  Then queries
 * that are planned from now on are judged.
 */
bool
la_insert_begin_utility(Node *statement)
{
	if (statement != NULL && IsA(statement, ExplainStmt))
	{
		Node	   *query = ((ExplainStmt *) statement)->query;

		statement = IsA(query, Query) ? ((Query *) query)->utilityStmt : NULL;
	}
	if (statement == NULL || !(IsA(statement, CreateTableAsStmt) ||
							   IsA(statement, RefreshMatViewStmt)))
		return false;
	depth++;
	return true;
}

/*
 * A utility command ends, and its plan may be freed.
 */
void
la_insert_end_utility(bool begun)
{
	if (!begun)
		return;
	depth--;
	last_report.plan = NULL;
}

/*
 * May a query that is planned now fill a new table?
 */
bool
la_insert_fills_table(void)
{
	return depth > 0;
}

/*
 * A query that may fill a new table has been planned.
 */
void
la_insert_note_plan(const PlannedStmt *plan, LaReason judgement)
{
	last_report = (LaInsertReport)
	{
		.plan = plan,.reason = judgement
	};
}

/*
 * What became of the query that filled a new table last, if it had this plan; NULL
 * otherwise.
 */
const LaInsertReport *
la_insert_report(const PlannedStmt *plan)
{
	return last_report.plan == plan ? &last_report : NULL;
}

/*
 * receiveSlot, when rows are left to core.
 */
static bool
pass_on(TupleTableSlot *row, DestReceiver *self)
{
	Receiver   *receiver = (Receiver *) self;

	return receiver->core->receiveSlot(row, receiver->core);
}

/*
 * Does the relation cache agree that this is the table, and is the rest as core
 * sets it?
 */
static bool
as_expected(const CoreReceiver *found, Oid table, int options)
{
	Relation	known = RelationIdGetRelation(table);
	bool		same;

	if (known == NULL)
		return false;
	same = known == found->table;
	RelationClose(known);
	return same && found->options == options &&
		found->cid == GetCurrentCommandId(false);
}

/*
 * Reads one that has been started, and is to receive rows.  False when it does not
 * look as expected.
 */
static bool
read_core(const DestReceiver *receiver, CoreReceiver *result)
{
	if (receiver->mydest == DestIntoRel)
	{
		const IntoReceiver *into = (const IntoReceiver *) receiver;

		if (into->reladdr.classId != RelationRelationId)
			return false;
		result->table = into->rel;
		result->cid = into->output_cid;
		result->options = into->ti_options;
		result->bulk = into->bistate;
		return as_expected(result, into->reladdr.objectId,
						   TABLE_INSERT_SKIP_FSM);
	}
	else
	{
		const TransientReceiver *transient = (const TransientReceiver *) receiver;

		result->table = transient->transientrel;
		result->cid = transient->output_cid;
		result->options = transient->ti_options;
		result->bulk = transient->bistate;
		return as_expected(result, transient->transientoid,
						   TABLE_INSERT_SKIP_FSM | TABLE_INSERT_FROZEN);
	}
}

static LaReason
unsuitable_receiver(Receiver *receiver)
{
	LaReason	reason = LA_REASON_NONE;
	bool		expected;

	if (self_check.failed)
		return LA_REASON_SELF_CHECK;
	expected = read_core(receiver->core, &receiver->target);
	if (!la_self_check(&self_check, expected, &reason))
		return reason;
	if (receiver->target.table->rd_tableam != GetHeapamTableAmRoutine())
		return LA_REASON_TABLE_AM;

	/*
	 * Decoding reads such a table, and needs to know the commands of its
	 * rows.
	 */
	if (RelationIsUsedAsCatalogTable(receiver->target.table))
		return LA_REASON_SYSTEM_CATALOG;
	if (!la_insert_file_is_ours(receiver->target.table))
		return LA_REASON_BULK_EXTEND_SIZE;
	return LA_REASON_NONE;
}

/*
 * Has core filled enough, and all pages by which it has extended the table in advance?  It
 * remembers both; nobody else would fill those pages.  Reads BulkInsertStateData of hio.h.
 */
static bool
is_time_to_append(const CoreReceiver *target)
{
	BlockNumber filling = RelationGetTargetBlock(target->table);

	return BlockNumberIsValid(filling) &&
		filling >= la_insert_threshold() / BLCKSZ &&
		!BlockNumberIsValid(target->bulk->next_free);
}

/*
 * Should rows go back to core, it goes on behind those that were appended, not on its page of
 * before.
 */
static void
begin_file(Receiver *receiver)
{
	const CoreReceiver *target = &receiver->target;
	MemoryContext caller = MemoryContextSwitchTo(receiver->query->estate->es_query_cxt);

	ReleaseBulkInsertStatePin(target->bulk);
	receiver->report.counters.scans++;
	receiver->file = la_insert_file_begin(la_insert_batch_begin(target->table, NULL),
										  target->cid, target->options,
										  &receiver->report.counters);
	MemoryContextSwitchTo(caller);
}

/*
 * receiveSlot.
 */
static bool
receiver_receive(TupleTableSlot *row, DestReceiver *self)
{
	Receiver   *receiver = (Receiver *) self;

	if (unlikely(receiver->file == NULL && is_time_to_append(&receiver->target)))
		begin_file(receiver);
	if (receiver->file == NULL)
		return pass_on(row, self);
	if (la_insert_file_add(receiver->file, row))
		return true;
	la_insert_file_end(receiver->file);
	receiver->file = NULL;
	receiver->pub.receiveSlot = pass_on;
	return pass_on(row, self);
}

/*
 * rStartup: the table is made.
 */
static void
receiver_startup(DestReceiver *self, int operation, TupleDesc row_type)
{
	Receiver   *receiver = (Receiver *) self;
	LaReason   *reason = &receiver->report.reason;

	receiver->core->rStartup(receiver->core, operation, row_type);
	if (*reason == LA_REASON_NONE)
		*reason = unsuitable_receiver(receiver);
	la_stats_count(LA_FEATURE_BULK_INSERT, *reason, false);
	if (*reason == LA_REASON_NONE)
		receiver->pub.receiveSlot = receiver_receive;
}

/*
 * rShutdown: there are no more rows.
 */
static void
receiver_shutdown(DestReceiver *self)
{
	Receiver   *receiver = (Receiver *) self;

	if (receiver->file != NULL)
		la_insert_file_end(receiver->file);
	la_stats_add(LA_FEATURE_BULK_INSERT, &receiver->report.counters);
	last_report = receiver->report;
	receiver->core->rShutdown(receiver->core);
}

/*
 * rDestroy: nobody calls it, because the query gets core's receiver back.
 */
static void
receiver_destroy(DestReceiver *self)
{
	((Receiver *) self)->core->rDestroy(((Receiver *) self)->core);
}

/*
 * For LaHooks: the execution of a query that fills a new table begins.
 */
void
la_insert_begin_filling(QueryDesc *query)
{
	Receiver   *receiver;

	if (!la_feature_enabled(LA_FEATURE_BULK_INSERT))
		return;
	if (last_report.plan != query->plannedstmt)
		la_insert_note_plan(query->plannedstmt, LA_REASON_PREPARED);

	receiver = MemoryContextAllocZero(query->estate->es_query_cxt,
									  sizeof(Receiver));
	receiver->pub.receiveSlot = pass_on;
	receiver->pub.rStartup = receiver_startup;
	receiver->pub.rShutdown = receiver_shutdown;
	receiver->pub.rDestroy = receiver_destroy;
	receiver->pub.mydest = query->dest->mydest;
	receiver->core = query->dest;
	receiver->query = query;
	receiver->report = last_report;
	query->dest = &receiver->pub;
}

/*
 * For LaHooks: it ends, be it by an error.
 */
void
la_insert_end_filling(QueryDesc *query)
{
	if (query->dest->rStartup == receiver_startup)
		query->dest = ((Receiver *) query->dest)->core;
}
