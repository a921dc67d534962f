/*-------------------------------------------------------------------------
 *
 * la_interval_drain_list.c
 *	  which ranges of a policy the default partition has rows of
 *
 * All keys are read once, in their order, so that those of a range come one after the other.  Only ranges to which
 * rows move are kept, and those are near other partitions: what is far is counted, however much of it there is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "executor/spi.h"
#include "tcop/dest.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"

#include "intervals/la_interval_create.h"
#include "intervals/la_interval_drain_list.h"
#include "intervals/la_interval_drain_rows.h"
#include "intervals/la_interval_owner.h"
#include "la_sql_function.h"

/* Takes keys in ascending order. */
typedef struct LaKeyReceiver
{
	DestReceiver base;
	LaIntervalDrainTable table;
	LaIntervalDrainList *list;
	MemoryContext context;		/* of the list */
	MemoryContext temporary;	/* for a row */

	/* The key whose range was looked for last. */
	MemoryContext last;			/* for that */
	LaIntervalBound key;
	LaIntervalRange range;		/* unless it is without one */
	LaIntervalStay stay;
	LaIntervalDrained *listed;	/* its range, if it does not stay */
} LaKeyReceiver;

/*
 * The order is that of the key, whose operator class is the type's.
 */
static void
scan(LaKeyReceiver *receiver, Oid default_partition)
{
	const char *query;

	/* Rows that a policy hides would be an error, and not left out. */
	la_sql_argument_set("row_security", "off");
	query = psprintf("SELECT %s FROM ONLY %s ORDER BY 1",
					 pg_get_partkeydef_columns(receiver->table.policy->parent, false),
					 la_interval_owner_name(default_partition));
	SPI_connect();
	(void) la_interval_drain_execute(query, default_partition, SPI_OK_SELECT, &receiver->base);
	SPI_finish();
}

static void
find(void *arg)
{
	LaKeyReceiver *receiver = arg;

	receiver->key = la_interval_grid_complete(receiver->table.grid->key_type, &receiver->key);
	receiver->stay = la_interval_drain_find(&receiver->table, &receiver->key, &receiver->range);
}

/*
 * Finds the range of a key, and lists it unless the key stays.  A value can be so far away that
 * core computes no bound there.
 */
static void
take_key(LaKeyReceiver *receiver, Datum key)
{
	LaIntervalDrainList *list = receiver->list;

	MemoryContextReset(receiver->last);
	MemoryContextSwitchTo(receiver->last);
	receiver->key.value = key;
	receiver->key.text = NULL;
	receiver->stay = LA_STAY_WITHOUT;
	(void) la_interval_try(find, receiver);
	if (receiver->stay != LA_STAY_NOT)
		return;
	MemoryContextSwitchTo(receiver->context);
	receiver->listed = palloc0_object(LaIntervalDrained);
	receiver->listed->value = pstrdup(receiver->key.text);
	list->ranges = lappend(list->ranges, receiver->listed);
}

static bool
receive(TupleTableSlot *slot, DestReceiver *self)
{
	LaKeyReceiver *receiver = (LaKeyReceiver *) self;
	const LaIntervalGrid *grid = receiver->table.grid;
	MemoryContext caller = MemoryContextSwitchTo(receiver->temporary);
	bool		is_null;
	LaIntervalBound key = {.value = slot_getattr(slot, 1, &is_null)};

	if (is_null || !la_interval_grid_is_finite(grid->key_type, &key))
		receiver->list->stay[LA_STAY_WITHOUT]++;
	else
	{
		if (receiver->stay == LA_STAY_WITHOUT ||
			la_interval_grid_compare(grid, &key, &receiver->range.upper) >= 0)
			take_key(receiver, key.value);
		if (receiver->stay == LA_STAY_NOT)
			receiver->listed->rows++;
		else
			receiver->list->stay[receiver->stay]++;
	}
	MemoryContextSwitchTo(caller);
	MemoryContextReset(receiver->temporary);
	return true;
}

/*
 * Lists the ranges, as the table's owner and for a new snapshot.
 */
void
la_interval_drain_list(LaIntervalDrainList *list, const LaIntervalPolicy *policy,
					   const LaIntervalSource *source, Oid default_partition)
{
	LaKeyReceiver receiver = {
		.base = *None_Receiver,
		.list = list,
		.context = CurrentMemoryContext,
		.stay = LA_STAY_WITHOUT,
	};
	const LaIntervalPartition *maybe;

	receiver.base.receiveSlot = receive;
	receiver.base.mydest = DestTuplestore;
	receiver.temporary = AllocSetContextCreate(CurrentMemoryContext, "pg_lookahead row",
											   ALLOCSET_DEFAULT_SIZES);
	receiver.last = AllocSetContextCreate(CurrentMemoryContext, "pg_lookahead range",
										  ALLOCSET_DEFAULT_SIZES);
	la_interval_drain_open(&receiver.table, policy, source);
	list->is_unused = !la_interval_grid_is_time(receiver.table.grid->key_type) &&
		la_interval_partitions_last_used(receiver.table.all, &maybe) == NULL && maybe == NULL;
	scan(&receiver, default_partition);
	table_close(receiver.table.parent, AccessShareLock);
	MemoryContextDelete(receiver.last);
	MemoryContextDelete(receiver.temporary);
}

/*
 * Looks at a table with the active snapshot.  The caller closes it, and has looked for the row
 * that makes others old.
 */
void
la_interval_drain_open(LaIntervalDrainTable *table, const LaIntervalPolicy *policy,
					   const LaIntervalSource *source)
{
	table->policy = policy;
	table->parent = la_interval_grid_open(policy->parent);
	table->grid = la_interval_grid_make(policy, table->parent);
	table->all = la_interval_partitions_read(table->parent);
	table->has_filled = la_interval_old_is_source(policy->parent, source, &table->filled);
	table->is_lost = OidIsValid(source->partition) && !table->has_filled;
}

/*
 * The range of a value of the default partition, as much of it as no other partition has, or
 * why the value stays there.  Of a policy from a dump the key may round bounds, so that the
 * range has not the value.
 */
LaIntervalStay
la_interval_drain_find(LaIntervalDrainTable *table, const LaIntervalBound *key,
					   LaIntervalRange *range)
{
	const LaIntervalGrid *grid = table->grid;

	if (la_interval_grid_ends(grid, key))
		return LA_STAY_WITHOUT;
	*range = la_interval_grid_find(grid, key);
	if (la_interval_grid_compare(grid, &range->lower, key) > 0 ||
		la_interval_grid_compare(grid, key, &range->upper) >= 0 ||
		la_interval_partitions_find(table->all, grid, key, range) != NULL)
		return LA_STAY_WITHOUT;
	if (!la_interval_create_reaches(table->policy, grid, table->all, key))
		return LA_STAY_FAR;
	if (!la_interval_old_keeps_new(table->policy, grid, table->all, range,
								   table->has_filled ? &table->filled : NULL))
		return table->is_lost ? LA_STAY_UNKNOWN : LA_STAY_OLD;
	return LA_STAY_NOT;
}

/*
 * Whether maintenance, which goes on from the last partition in use, would leave a gap before
 * such a range for ever. Where none is in use the range moves if the highest one comes first:
 * if ranges were listed as those of a table in use, the others would be behind a gap.
 */
LaIntervalStay
la_interval_drain_leads_away(const LaIntervalDrainTable *table, const LaIntervalRange *range,
							 bool is_unused)
{
	const LaIntervalPartition *last;
	const LaIntervalPartition *maybe;

	if (la_interval_grid_is_time(table->grid->key_type))
		return LA_STAY_NOT;
	last = la_interval_partitions_last_used(table->all, &maybe);
	if (maybe == NULL)
		return is_unused ? LA_STAY_NOT : LA_STAY_UNKNOWN;
	switch (la_interval_partitions_place(table->all, table->grid, range, last, maybe))
	{
		case LA_PLACE_FOLLOWS:
			return LA_STAY_NOT;
		case LA_PLACE_BEHIND_GAP:
			return LA_STAY_AWAY;
		case LA_PLACE_UNKNOWN:
			break;
	}
	return LA_STAY_UNKNOWN;
}
