/*-------------------------------------------------------------------------
 *
 * la_interval_drain_list.c
 *	  which ranges of a policy the default partition has rows of
 *
 * All rows are read once, their keys only, by a query that keeps none of them.  A range is
 * computed for the first row that is in it.  Only ranges to which rows move are kept, and those are near
 * other partitions: what is far is counted, however much of it there is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "executor/spi.h"
#include "tcop/dest.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"

#include "intervals/la_interval_create.h"
#include "intervals/la_interval_drain_list.h"
#include "intervals/la_interval_drain_rows.h"
#include "intervals/la_interval_owner.h"
#include "la_sql_function.h"

/* Takes keys, one after the other. */
typedef struct LaKeyReceiver
{
	DestReceiver base;
	LaIntervalDrainTable table;
	LaIntervalDrainList *list;
	MemoryContext context;		/* of the list */
	MemoryContext temporary;	/* for a row */
	MemoryContext last;			/* of the last key that stays */

	/* A key whose range is looked for. */
	LaIntervalBound key;
	LaIntervalDrained found;
	LaIntervalStay stay;

	/* The last one that stays, and why: there may be many of it. */
	bool		is_last;
	Datum		last_key;
	LaIntervalStay last_stay;
	int16		length;
	bool		is_by_value;
} LaKeyReceiver;

static void scan(LaKeyReceiver *receiver, Oid default_partition);
static bool receive(TupleTableSlot *slot, DestReceiver *self);
static LaIntervalStay take_key(LaKeyReceiver *receiver);
static LaIntervalDrained *find_listed(const LaKeyReceiver *receiver);
static bool is_last(const LaKeyReceiver *receiver);
static void keep_last(LaKeyReceiver *receiver);
static void find(void *arg);
static int	compare(const RBTNode *a, const RBTNode *b, void *arg);
static RBTNode *allocate(void *arg);

/*
 * Lists the ranges, as the table's owner and for a new snapshot.
 */
void
la_interval_drain_list(LaIntervalDrainList *list, const LaIntervalPolicy *policy,
					   Oid default_partition)
{
	LaKeyReceiver receiver = {
		.base = *None_Receiver,
		.list = list,
		.context = CurrentMemoryContext,
	};

	receiver.base.receiveSlot = receive;
	receiver.base.mydest = DestTuplestore;
	receiver.temporary = AllocSetContextCreate(CurrentMemoryContext, "pg_lookahead key",
											   ALLOCSET_DEFAULT_SIZES);
	receiver.last = AllocSetContextCreate(CurrentMemoryContext, "pg_lookahead last key",
										  ALLOCSET_SMALL_SIZES);
	la_interval_drain_open(&receiver.table, policy);
	get_typlenbyval(receiver.table.grid->key_type, &receiver.length, &receiver.is_by_value);
	list->ranges = rbt_create(sizeof(LaIntervalDrained), compare, NULL, allocate, NULL,
							  receiver.table.grid);
	list->is_unused = la_interval_partitions_last_used(receiver.table.all) == NULL;
	scan(&receiver, default_partition);
	table_close(receiver.table.parent, AccessShareLock);
	MemoryContextDelete(receiver.last);
	MemoryContextDelete(receiver.temporary);
}

static void
scan(LaKeyReceiver *receiver, Oid default_partition)
{
	const char *query;

	/* Rows that a policy hides would be an error, and not left out. */
	la_sql_argument_set("row_security", "off");
	query = psprintf("SELECT %s FROM ONLY %s",
					 pg_get_partkeydef_columns(receiver->table.policy->parent, false),
					 la_interval_owner_name(default_partition));
	SPI_connect();
	(void) la_interval_drain_execute(query, default_partition, SPI_OK_SELECT, &receiver->base);
	SPI_finish();
}

static bool
receive(TupleTableSlot *slot, DestReceiver *self)
{
	LaKeyReceiver *receiver = (LaKeyReceiver *) self;
	MemoryContext caller = MemoryContextSwitchTo(receiver->temporary);
	LaIntervalStay stay = LA_STAY_WITHOUT;
	bool		is_null;

	receiver->key.text = NULL;
	receiver->key.value = slot_getattr(slot, 1, &is_null);
	if (!is_null && la_interval_grid_is_finite(receiver->table.grid->key_type, &receiver->key))
		stay = take_key(receiver);
	if (stay != LA_STAY_NOT)
		receiver->list->stay[stay]++;
	MemoryContextSwitchTo(caller);
	MemoryContextReset(receiver->temporary);
	return true;
}

/*
 * Adds the range of a key, unless that is there or the key stays.  A value can be so far away that core
 * computes no bound there.
 */
static LaIntervalStay
take_key(LaKeyReceiver *receiver)
{
	LaIntervalDrained *listed = find_listed(receiver);
	bool		is_new;

	if (listed != NULL)
	{
		listed->rows++;
		return LA_STAY_NOT;
	}
	if (is_last(receiver))
		return receiver->last_stay;
	receiver->stay = LA_STAY_WITHOUT;
	(void) la_interval_try(find, receiver);
	if (receiver->stay == LA_STAY_NOT)
	{
		/* Once more, into the memory of the list. */
		MemoryContextSwitchTo(receiver->context);
		find(receiver);
		receiver->found.rows = 1;
		(void) rbt_insert(receiver->list->ranges, &receiver->found.node, &is_new);
	}
	else
		keep_last(receiver);
	return receiver->stay;
}

/*
 * The range of the key in the list, or NULL.
 */
static LaIntervalDrained *
find_listed(const LaKeyReceiver *receiver)
{
	LaIntervalDrained key = {.range.lower = receiver->key};
	LaIntervalDrained *before =
		(LaIntervalDrained *) rbt_find_less(receiver->list->ranges, &key.node, true);

	return before != NULL &&
		la_interval_grid_compare(receiver->table.grid, &receiver->key, &before->range.upper) < 0
		? before : NULL;
}

static bool
is_last(const LaKeyReceiver *receiver)
{
	LaIntervalBound last = {.value = receiver->last_key};

	return receiver->is_last &&
		la_interval_grid_compare(receiver->table.grid, &receiver->key, &last) == 0;
}

static void
keep_last(LaKeyReceiver *receiver)
{
	MemoryContextReset(receiver->last);
	MemoryContextSwitchTo(receiver->last);
	receiver->last_key = datumCopy(receiver->key.value, receiver->is_by_value, receiver->length);
	receiver->last_stay = receiver->stay;
	receiver->is_last = true;
}

static void
find(void *arg)
{
	LaKeyReceiver *receiver = arg;

	receiver->stay = la_interval_drain_find(&receiver->table, &receiver->key, &receiver->found);
}

static int
compare(const RBTNode *a, const RBTNode *b, void *arg)
{
	return la_interval_grid_compare(arg, &((const LaIntervalDrained *) a)->range.lower,
									&((const LaIntervalDrained *) b)->range.lower);
}

static RBTNode *
allocate(void *arg)
{
	return (RBTNode *) palloc_object(LaIntervalDrained);
}

/*
 * Looks at a table with the active snapshot.  The caller closes it.
 */
void
la_interval_drain_open(LaIntervalDrainTable *table, const LaIntervalPolicy *policy)
{
	table->policy = policy;
	table->parent = la_interval_grid_open(policy->parent);
	table->grid = la_interval_grid_make(policy, table->parent);
	table->all = la_interval_partitions_read(table->parent);
	la_interval_old_begin_new(&table->kept, policy, table->grid, table->all);
}

/*
 * The range of a value of the default partition, as much of it as no other partition has, or why the value
 * stays there.
 */
LaIntervalStay
la_interval_drain_find(LaIntervalDrainTable *table, const LaIntervalBound *value,
					   LaIntervalDrained *drained)
{
	const LaIntervalGrid *grid = table->grid;
	LaIntervalBound key = la_interval_grid_complete(grid->key_type, value);

	if (la_interval_grid_ends(grid, &key))
		return LA_STAY_WITHOUT;
	drained->value = key.text;
	drained->range = la_interval_grid_find(grid, &key);
	if (la_interval_partitions_find(table->all, grid, &key, &drained->range) != NULL)
		return LA_STAY_WITHOUT;
	if (!la_interval_create_reaches(table->policy, grid, table->all, &key))
		return LA_STAY_FAR;
	if (!la_interval_old_keeps_new(&table->kept, grid, &drained->range))
		return LA_STAY_OLD;
	return LA_STAY_NOT;
}

/*
 * Whether maintenance, which goes on from the last partition in use, would leave a gap before such a range for ever.
 * Of a table without a partition in use that is not known: there the highest range comes first.
 */
bool
la_interval_drain_leads_away(const LaIntervalDrainTable *table, const LaIntervalRange *range)
{
	const LaIntervalGrid *grid = table->grid;
	const LaIntervalPartition *last;
	const LaIntervalPartition *end = table->all->partitions +
		la_interval_partitions_search(table->all, grid, &range->lower);

	if (la_interval_grid_is_time(grid->key_type))
		return false;
	last = la_interval_partitions_last_used(table->all);
	if (last == NULL)
		return false;
	for (; last < end; last++)
	{
		const LaIntervalBound *next = last + 1 < end ? &last[1].lower : &range->lower;

		if (la_interval_grid_compare(grid, &last->upper, next) != 0)
			return true;
	}
	return false;
}
