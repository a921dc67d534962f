/*-------------------------------------------------------------------------
 *
 * la_interval_drain_list.c
 *	  which ranges of a policy the default partition has rows of
 *
 * All rows are read once, their keys only, by a query that keeps none of them.  A range is
 * computed for the first row that is in it.
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

#define LEAST_SIZE 64

/* Takes keys, one after the other. */
typedef struct LaKeyReceiver
{
	DestReceiver base;
	const LaIntervalPolicy *policy;
	const LaIntervalGrid *grid;
	const LaIntervalPartitions *all;
	LaIntervalDrainList *list;
	MemoryContext context;		/* of the list */
	MemoryContext temporary;	/* for a row */

	/* A key whose range is looked for. */
	LaIntervalBound key;
	LaIntervalDrained found;
	bool		is_found;
} LaKeyReceiver;

static void start(DestReceiver *self, int operation, TupleDesc columns);
static bool receive(TupleTableSlot *slot, DestReceiver *self);
static void finish(DestReceiver *self);
static void take_key(LaKeyReceiver *receiver);
static void find(void *arg);
static int	place_of(const LaKeyReceiver *receiver, bool *is_present);

/*
 * Lists the ranges, as the table's owner and for a new snapshot.
 */
void
la_interval_drain_list(LaIntervalDrainList *list, const LaIntervalPolicy *policy,
					   Oid default_partition)
{
	Relation	parent = la_interval_grid_open(policy->parent);
	LaKeyReceiver receiver = {
		.base = {
			.receiveSlot = receive,
			.rStartup = start,
			.rShutdown = finish,
			.rDestroy = finish,
			.mydest = DestTuplestore,
		},
		.policy = policy,
		.grid = la_interval_grid_make(policy, parent),
		.all = la_interval_partitions_read(parent),
		.list = list,
		.context = CurrentMemoryContext,
		.temporary = AllocSetContextCreate(CurrentMemoryContext,
										   "pg_lookahead key",
										   ALLOCSET_DEFAULT_SIZES),
	};
	const char *query;

	/* Rows that a policy hides would be an error, and not left out. */
	la_sql_argument_set("row_security", "off");
	query = psprintf("SELECT %s FROM ONLY %s",
					 pg_get_partkeydef_columns(policy->parent, false),
					 la_interval_owner_name(default_partition));
	SPI_connect();
	(void) la_interval_drain_execute(query, default_partition, SPI_OK_SELECT, &receiver.base);
	SPI_finish();
	MemoryContextDelete(receiver.temporary);
	table_close(parent, AccessShareLock);
}

static void
start(DestReceiver *self, int operation, TupleDesc columns)
{
}

static void
finish(DestReceiver *self)
{
}

static bool
receive(TupleTableSlot *slot, DestReceiver *self)
{
	LaKeyReceiver *receiver = (LaKeyReceiver *) self;
	MemoryContext caller = MemoryContextSwitchTo(receiver->temporary);
	bool		is_null;

	receiver->key.text = NULL;
	receiver->key.value = slot_getattr(slot, 1, &is_null);
	if (is_null || !la_interval_grid_is_finite(receiver->grid->key_type, &receiver->key))
		receiver->list->without++;
	else
		take_key(receiver);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(receiver->temporary);
	return true;
}

/*
 * Adds the range of a key, unless that is there.  A value can be so far away that core computes no bound there.
 */
static void
take_key(LaKeyReceiver *receiver)
{
	LaIntervalDrainList *list = receiver->list;
	bool		is_present;
	int			place = place_of(receiver, &is_present);

	if (!is_present)
	{
		receiver->is_found = false;
		MemoryContextSwitchTo(receiver->context);
		(void) la_interval_try(find, receiver);
		if (!receiver->is_found)
		{
			list->without++;
			return;
		}
		if (list->count == list->size)
		{
			list->size = Max(2 * list->size, LEAST_SIZE);
			list->ranges = list->ranges == NULL
				? MemoryContextAllocHuge(receiver->context, list->size * sizeof(LaIntervalDrained))
				: repalloc_huge(list->ranges, list->size * sizeof(LaIntervalDrained));
		}
		memmove(&list->ranges[place + 1], &list->ranges[place],
				(list->count - place) * sizeof(LaIntervalDrained));
		list->ranges[place] = receiver->found;
		list->count++;
	}
	if (list->ranges[place].is_far)
		list->far++;
}

static void
find(void *arg)
{
	LaKeyReceiver *receiver = arg;

	receiver->is_found = la_interval_drain_find(receiver->policy, receiver->grid, receiver->all,
												&receiver->key, &receiver->found);
}

/*
 * Where the range of the key is in the list, or would be.
 */
static int
place_of(const LaKeyReceiver *receiver, bool *is_present)
{
	const LaIntervalDrainList *list = receiver->list;
	int			low = 0;
	int			high = list->count;

	/* Find the first range that ends after the key. */
	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (la_interval_grid_compare(receiver->grid, &list->ranges[middle].range.upper,
									 &receiver->key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	*is_present = low < list->count &&
		la_interval_grid_compare(receiver->grid, &list->ranges[low].range.lower,
								 &receiver->key) <= 0;
	return low;
}

/*
 * The range of a value of the default partition, as much of it as no other partition has.  False where there
 * is none.
 */
bool
la_interval_drain_find(const LaIntervalPolicy *policy, const LaIntervalGrid *grid,
					   const LaIntervalPartitions *all, const LaIntervalBound *value,
					   LaIntervalDrained *drained)
{
	LaIntervalBound key = la_interval_grid_complete(grid->key_type, value);

	if (la_interval_grid_ends(grid, &key))
		return false;
	drained->value = key.text;
	drained->range = la_interval_grid_find(grid, &key);
	if (la_interval_partitions_find(all, grid, &key, &drained->range) != NULL)
		return false;
	drained->is_far = !la_interval_create_reaches(policy, grid, all, &key);
	return true;
}
