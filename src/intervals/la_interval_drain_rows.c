/*-------------------------------------------------------------------------
 *
 * la_interval_drain_rows.c
 *	  moves the rows of one range out of the default partition
 *
 * By core's commands: DELETE ... RETURNING puts the rows aside, the partition is created, which
 * core allows now that no row of it is in the default partition, and INSERT ... SELECT puts
 * them there.  So all that is written is what core writes for a user, with constraints,
 * indexes, foreign keys and publications; and what is wrong with the choice of rows is an
 * error: too few of core's look at the default partition, too many of the new partition's
 * bound.
 *
 * Values that are stored elsewhere stay there until the transaction ends, and core's INSERT
 * fetches them.  Relies on heap_toast_insert_or_update() in heaptoast.c.
 *
 * Where a trigger, a rule or a foreign key to the table would take the commands for what they
 * are not, for rows that go and others that come, rows are not moved.  Nor where an event
 * trigger would fire: it could give the new partition such things, put another one in its
 * place, or have the commit wait after the last look at others.
 *
 * As the table's owner; the parent and the default partition are locked.
 *
 * Reads PGPROC of proc.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_publication.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "partitioning/partbounds.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/wait_event.h"

#include "intervals/la_interval_create.h"
#include "intervals/la_interval_drain_rows.h"
#include "intervals/la_interval_owner.h"
#include "la_sql_function.h"
#include "partitions/la_partition_references.h"
#include "partitions/la_partition_way.h"

/* What the rows that were put aside are called in a command. */
#define ASIDE "pg_lookahead_moved_rows"

/* How often others' snapshots are looked at. */
#define POLL_MS 1

/* After how many rows that are deleted others are looked for who wait. */
#define ROWS_BETWEEN_LOOKS 100

/* Rows on their way. */
typedef struct LaRowsAside
{
	DestReceiver base;
	const LaIntervalDrainLocked *locked;
	Tuplestorestate *rows;
	TupleDesc	columns;
	char	   *names;			/* of the columns, as they stand in a command */
} LaRowsAside;

static void
refuse(const char *table, const char *why, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("rows cannot be moved out of the default partition because of \"%s\"", table),
			 name == NULL ? errdetail("%s.", why) : errdetail("%s \"%s\".", why, name),
			 errhint("Detach the default partition, have partitions created, and insert its rows into the table.")));
}

static void
check_default(Relation default_partition)
{
	const char *name = RelationGetRelationName(default_partition);

	if (default_partition->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		refuse(name, "It is partitioned", NULL);
	if (default_partition->rd_rel->relkind != RELKIND_RELATION)
		refuse(name, "It is a foreign table", NULL);
	if (default_partition->rd_rules != NULL)
		refuse(name, "It has rules", NULL);
}

/*
 * Subscribers of the default partition alone would lose the rows, and so would those who are
 * told of deletes only; those who are told of inserts only would have them twice.
 */
static void
check_published(Relation parent, Relation default_partition)
{
	const char *name = RelationGetRelationName(default_partition);
	Oid			schema = RelationGetNamespace(default_partition);
	List	   *publications = list_concat(GetAllTablesPublications(), GetSchemaPublications(schema));

	if (GetRelationPublications(RelationGetRelid(default_partition)) != NIL ||
		(schema != RelationGetNamespace(parent) && GetSchemaPublications(schema) != NIL))
		refuse(name, "It is published by itself", NULL);
	foreach_oid(table, get_partition_ancestors(RelationGetRelid(default_partition)))
	{
		publications = list_concat(publications, GetRelationPublications(table));
		publications = list_concat(publications,
								   GetSchemaPublications(get_rel_namespace(table)));
	}
	foreach_oid(id, publications)
	{
		const Publication *publication;

		/* One that is dropped meanwhile is locked by nobody. */
		if (!SearchSysCacheExists1(PUBLICATIONOID, ObjectIdGetDatum(id)))
			continue;
		publication = GetPublication(id);
		if (publication->pubactions.pubinsert != publication->pubactions.pubdelete)
			refuse(name, "It is published with either inserts or deletes, by publication",
				   publication->name);
	}
}

/*
 * Deletes of the publisher would not find the rows, nor would updates.
 */
static void
check_subscribed(Relation default_partition)
{
	CatCList   *subscriptions = SearchSysCacheList1(SUBSCRIPTIONRELMAP,
													ObjectIdGetDatum(RelationGetRelid(default_partition)));
	int			count = subscriptions->n_members;

	ReleaseSysCacheList(subscriptions);
	if (count > 0)
		refuse(RelationGetRelationName(default_partition), "It is subscribed to by itself", NULL);
}

/*
 * One of a table's triggers that fire, but for core's and those that are disabled.  A new
 * partition gets those of the parent for each row.
 */
static const char *
trigger_of(Relation relation, bool (*fires) (int16 type))
{
	const TriggerDesc *triggers = relation->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (!trigger->tgisinternal && trigger->tgenabled != TRIGGER_DISABLED &&
			fires(trigger->tgtype))
			return trigger->tgname;
	}
	return NULL;
}

static void
check_triggers(Relation relation, bool (*fires) (int16 type))
{
	const char *name = trigger_of(relation, fires);

	if (name != NULL)
		refuse(RelationGetRelationName(relation), "It has trigger", name);
}

static bool
fires_in_default(int16 type)
{
	return TRIGGER_FOR_DELETE(type);
}

static bool
fires_in_new(int16 type)
{
	return TRIGGER_FOR_ROW(type) && TRIGGER_FOR_INSERT(type);
}

static bool
fires_on_insert(int16 type)
{
	return TRIGGER_FOR_INSERT(type);
}

/*
 * A function of an index is called while the partition is created, and another library can be;
 * an event trigger may be there for a moment only.  In an unlogged partition rows would be lost
 * by standbys, by subscribers, and by a crash; a foreign table would take them elsewhere.
 */
static void
check_new(Relation partition)
{
	if (partition->rd_rel->relkind != RELKIND_RELATION ||
		partition->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED ||
		partition->rd_rules != NULL || trigger_of(partition, fires_on_insert) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rows cannot be moved out of the default partition while new partitions are changed"),
				 errdetail("\"%s\" has got triggers or rules, become unlogged, or taken the place of another table, while it was created.",
						   RelationGetRelationName(partition)),
				 errhint("Look for a function of an index, an event trigger or a library that does it.")));
}

static void
check_event_triggers(void)
{
	if (la_partition_fires_event_trigger(CMDTAG_CREATE_TABLE))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rows cannot be moved out of the default partition because of an event trigger for CREATE TABLE"),
				 errdetail("It could change the new partition, or have the commit wait while others miss the rows."),
				 errhint("As a superuser, set \"event_triggers\" to off in this session. "
						 "Otherwise detach the default partition, have partitions created, and insert its rows into the table.")));
}

/*
 * Refuses tables whose rows cannot be moved.
 */
void
la_interval_drain_check(Oid parent, Oid default_partition)
{
	Relation	relation = table_open(parent, NoLock);
	Relation	rest = table_open(default_partition, NoLock);
	List	   *references = list_concat(la_partition_references_to(parent),
										 la_partition_references_to(default_partition));

	if (!XLogIsNeeded())
		refuse(RelationGetRelationName(rest),
			   "With \"wal_level\" \"minimal\" a commit waits for the disk, and others could miss the rows meanwhile",
			   NULL);
	check_event_triggers();
	check_default(rest);
	check_published(relation, rest);
	check_subscribed(rest);
	check_triggers(rest, fires_in_default);
	check_triggers(relation, fires_in_new);
	if (references != NIL)
		refuse(RelationGetRelationName(rest), "It can be referenced by foreign keys of table",
			   get_rel_name(linitial_oid(references)));
	table_close(rest, NoLock);
	table_close(relation, NoLock);
}

/*
 * The columns that can be inserted.
 */
static void
describe_columns(LaRowsAside *aside, Relation default_partition)
{
	TupleDesc	all = RelationGetDescr(default_partition);
	AttrNumber *numbers = palloc_array(AttrNumber, all->natts);
	StringInfoData names;
	int			count = 0;

	initStringInfo(&names);
	for (int i = 1; i <= all->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(all, i - 1);

		if (column->attisdropped || column->attgenerated != '\0')
			continue;
		appendStringInfo(&names, "%s%s", count > 0 ? ", " : "",
						 quote_identifier(NameStr(column->attname)));
		numbers[count++] = i;
	}
	aside->names = names.data;
	aside->columns = CreateTemplateTupleDesc(count);
	for (int i = 0; i < count; i++)
		TupleDescCopyEntry(aside->columns, i + 1, all, numbers[i]);
}

/*
 * What core will say of the rows of the new partition, of the columns of the default partition.
 * Mirrors check_default_partition_contents() in partbounds.c.
 */
static char *
condition_of(Oid parent, PartitionBoundSpec *bound, Relation default_partition)
{
	Relation	relation = table_open(parent, NoLock);
	List	   *conditions = get_qual_from_partbound(relation, bound);
	const char *name = RelationGetRelationName(default_partition);

	conditions = map_partition_varattnos(conditions, 1, default_partition, relation);
	table_close(relation, NoLock);
	return deparse_expression((Node *) make_ands_explicit(conditions),
							  deparse_context_for(name, RelationGetRelid(default_partition)),
							  false, false);
}

/*
 * The partition that was created, by its bound: it has been created by name, and its schema can
 * have been renamed.
 */
static Oid
partition_of(Oid parent, const LaPlannedPartition *planned)
{
	Relation	relation = table_open(parent, NoLock);
	Oid			partition = la_partition_plan_range(relation, planned->bound);

	table_close(relation, NoLock);
	if (!OidIsValid(partition))
		la_partition_refuse_missing(partition);
	relation = table_open(partition, NoLock);
	check_new(relation);
	table_close(relation, NoLock);
	return partition;
}

/*
 * Whether somebody waits for a table that we have locked in this mode.
 */
static bool
is_awaited(Oid table, LOCKMODE mode)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, table);
	return LockHasWaiters(&tag, mode, false);
}

/*
 * Whether somebody waits for one of our locks: also for a row that we have locked, of a
 * referenced table, which is a wait for the subtransaction that does all.  Not seen are
 * walsenders that wait for the transaction above it, and waits for what functions of users have
 * locked.
 */
static bool
is_any_awaited(const LaIntervalDrainLocked *locked)
{
	TransactionId own = GetCurrentTransactionIdIfAny();
	LOCKTAG		tag;

	SET_LOCKTAG_TRANSACTION(tag, own);
	if (TransactionIdIsValid(own) && LockHasWaiters(&tag, ExclusiveLock, false))
		return true;
	if (is_awaited(locked->parent, AccessExclusiveLock) ||
		is_awaited(locked->default_partition, AccessExclusiveLock))
		return true;
	foreach_oid(table, locked->references)
	{
		if (is_awaited(table, ShareRowExclusiveLock))
			return true;
	}
	return false;
}

/*
 * Goes on only while nobody waits, or nobody has a snapshot: who waits with one would be in the
 * way in the end.  The two are asked one by one, so while somebody waits without one any other
 * statement has the range undone.
 */
static void
give_way(const LaRowsAside *aside)
{
	if (is_any_awaited(aside->locked))
		la_interval_drain_check_alone(aside->locked, 0);
}

static bool
receive(TupleTableSlot *slot, DestReceiver *self)
{
	LaRowsAside *aside = (LaRowsAside *) self;

	if ((tuplestore_tuple_count(aside->rows) + 1) % ROWS_BETWEEN_LOOKS == 0)
		give_way(aside);
	tuplestore_puttupleslot(aside->rows, slot);
	return true;
}

static uint64
put_aside(LaRowsAside *aside, const char *condition)
{
	int			level = NewGUCNestLevel();
	uint64		count;

	/* Rows that a policy hides would be an error, and not left out. */
	la_sql_argument_set("row_security", "off");
	aside->base.receiveSlot = receive;
	aside->base.mydest = DestTuplestore;
	SPI_connect();
	count = la_interval_drain_execute(psprintf("DELETE FROM ONLY %s WHERE %s RETURNING %s",
											   la_interval_owner_name(aside->locked->default_partition), condition, aside->names),
									  aside->locked->default_partition, SPI_OK_DELETE_RETURNING, &aside->base);
	SPI_finish();
	AtEOXact_GUC(false, level);
	return count;
}

static uint64
put_back(LaRowsAside *aside, Oid partition)
{
	EphemeralNamedRelationData rows = {
		.md = {
			.name = ASIDE,
			.tupdesc = aside->columns,
			.enrtype = ENR_NAMED_TUPLESTORE,
			.enrtuples = tuplestore_tuple_count(aside->rows),
		},
		.reldata = aside->rows,
	};
	uint64		count;

	SPI_connect();
	SPI_register_relation(&rows);
	count = la_interval_drain_execute(psprintf("INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM " ASIDE,
											   la_interval_owner_name(partition), aside->names, aside->names),
									  partition, SPI_OK_INSERT, NULL);
	SPI_finish();
	return count;
}

/*
 * Moves the rows of a range, for which no partition is there.  Returns how many there were;
 * without any no partition is created.
 */
uint64
la_interval_drain_rows(const LaIntervalPolicy *policy, const LaIntervalRange *range,
					   const LaIntervalDrainLocked *locked)
{
	LaRowsAside aside = {.base = *None_Receiver,.locked = locked};
	Relation	relation = table_open(locked->default_partition, NoLock);
	const LaPlannedPartition *planned = la_interval_create_plan(policy, range);
	char	   *condition = condition_of(policy->parent, planned->bound, relation);
	uint64		moved;

	describe_columns(&aside, relation);
	table_close(relation, NoLock);
	/* Nothing is left to the commit. */
	la_interval_owner_execute("SET CONSTRAINTS ALL IMMEDIATE");
	aside.rows = tuplestore_begin_heap(false, false, work_mem);
	moved = put_aside(&aside, condition);
	if (moved > 0)
	{
		Oid			partition;
		uint64		inserted;

		la_interval_create_range(policy, range);
		partition = partition_of(policy->parent, planned);
		inserted = put_back(&aside, partition);
		if (inserted != moved)
			elog(ERROR, "rows of partition differ in number: " UINT64_FORMAT " deleted, " UINT64_FORMAT " inserted",
				 moved, inserted);
	}
	tuplestore_end(aside.rows);
	return moved;
}

/*
 * Refuses to go on while another session has a snapshot, after so many milliseconds of
 * patience: none where somebody waits for our locks.  Mirrors WaitForOlderSnapshots() in
 * indexcmds.c.
 */
void
la_interval_drain_check_alone(const LaIntervalDrainLocked *locked, int patience)
{
	TimestampTz begin = GetCurrentTimestamp();

	for (;;)
	{
		int			count;
		VirtualTransactionId *others =
			GetCurrentVirtualXIDs(InvalidTransactionId, true, false,
								  PROC_IS_AUTOVACUUM | PROC_IN_VACUUM | PROC_IN_SAFE_IC,
								  &count);

		if (count == 0)
		{
			pfree(others);
			return;
		}
		if (is_any_awaited(locked) ||
			TimestampDifferenceExceeds(begin, GetCurrentTimestamp(), patience))
		{
			const PGPROC *other = ProcNumberGetProc(others[0].procNumber);

			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("rows of the default partition \"%s\" cannot be moved while other sessions have older snapshots",
							get_rel_name(locked->default_partition)),
					 errdetail("One of them is process %d.", other == NULL ? 0 : other->pid),
					 errhint("Call the procedure again when no statement or transaction goes on in this database.")));
		}
		pfree(others);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 POLL_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Executes a command that finds its target by name.  A schema can be renamed meanwhile, and
 * another one take its name. Our target is locked, so its name is not looked up again.  Relies
 * on RevalidateCachedQuery() in plancache.c.
 */
uint64
la_interval_drain_execute(const char *command, Oid target, int result, DestReceiver *receiver)
{
	SPIExecuteOptions options = {.dest = receiver};
	SPIPlanPtr	plan = SPI_prepare(command, 0, NULL);

	if (plan == NULL)
		elog(ERROR, "command failed: %s", command);
	foreach_ptr(CachedPlanSource, source, SPI_plan_get_plan_sources(plan))
	{
		if (!list_member_oid(source->relationOids, target))
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("the schema of \"%s\" was renamed meanwhile", get_rel_name(target))));
	}
	if (SPI_execute_plan_extended(plan, &options) != result)
		elog(ERROR, "command failed: %s", command);
	return SPI_processed;
}
