/*-------------------------------------------------------------------------
 *
 * la_core_receiver.c
 *	  core's receivers of rows that become a new table
 *
 * Of CREATE TABLE AS and SELECT INTO, and of materialized views.  Their structures are
 * private to core's files; they are repeated here, and what is read is checked
 * against what is known otherwise before it is used.  Relies on
 * CreateIntoRelDestReceiver() in createas.c and
 * CreateTransientRelDestReceiver() in matview.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "nodes/primnodes.h"
#include "utils/relcache.h"

#include "bulk_insert/source/la_core_receiver.h"

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

static bool as_expected(const LaCoreReceiver *found, Oid table, int options);

/*
 * Reads one that has been started, and is to receive rows.  False when it does not
 * look as expected.
 */
bool
la_core_receiver_read(const DestReceiver *receiver, LaCoreReceiver *result)
{
	if (receiver->mydest == DestIntoRel)
	{
		const IntoReceiver *into = (const IntoReceiver *) receiver;

		if (into->reladdr.classId != RelationRelationId)
			return false;
		result->table = into->rel;
		result->cid = into->output_cid;
		result->options = into->ti_options;
		return as_expected(result, into->reladdr.objectId,
						   TABLE_INSERT_SKIP_FSM);
	}
	else
	{
		const TransientReceiver *transient = (const TransientReceiver *) receiver;

		result->table = transient->transientrel;
		result->cid = transient->output_cid;
		result->options = transient->ti_options;
		return as_expected(result, transient->transientoid,
						   TABLE_INSERT_SKIP_FSM | TABLE_INSERT_FROZEN);
	}
}

/*
 * Does the relation cache agree that this is the table, and is the rest as core
 * sets it?
 */
static bool
as_expected(const LaCoreReceiver *found, Oid table, int options)
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
