/*-------------------------------------------------------------------------
 *
 * la_insert_change.c
 *	  changes of what inserts are judged by
 *
 * All that is looked at to judge an insert is read from catalogs.  Core tells every
 * session what has changed in them, whoever has changed it or has taken a change back,
 * when the session is about to look at catalogs; relies on AcceptInvalidationMessages() in
 * inval.c.  Findings that are kept (la_insert_finding.c) hold until the next change.
 *
 * A judgement that is in a kept plan cannot be found out again.  It need not when core
 * makes the plan anew (la_insert_reason.c).  Casts and operator classes that belong to a
 * type can be made later, without a change of the type.  That is rare, and core does not
 * make plans anew for it, nor parse their statements again, which could change what they
 * do: it begins another era, and a judgement on types of users holds for one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "utils/inval.h"
#include "utils/syscache.h"

#include "bulk_insert/judge/la_insert_change.h"

/* What is looked at of a type that is not in its row, and can be made later. */
static const int era_caches[] = {CASTSOURCETARGET, CLAOID, AMOPOPID, AMPROCNUM};

/*
 * What else is looked at.  One cache of each catalog is enough; the CHECK constraints of
 * domains have none that they are found by.  The number of a row type's columns, in
 * pg_class, only grows when one is added; a row of pg_range comes and goes with its type.
 */
static const int other_caches[] = {TYPEOID, CONSTROID, PROCOID, OPEROID, ATTNUM};

/* 0 is no era. */
static int	era = 1;
static uint64 changes = 0;
static uint64 tree_changes = 0;
static uint64 table_messages = 0;

/* A bit is set for each table that is watched, shared by many. */
static uint64 watched[64];

static void listen_once(void);
static inline uint64 *word_of(Oid table);
static inline uint64 bit_of(Oid table);
static void begin_era(Datum argument, int cache, uint32 hash);
static void count_change(Datum argument, int cache, uint32 hash);
static void count_tree_change(Datum argument, Oid table);

/*
 * How many changes there have been.
 */
uint64
la_insert_changes(void)
{
	listen_once();
	return changes;
}

/*
 * The era that we are in.
 */
int
la_insert_era(void)
{
	listen_once();
	return era;
}

/*
 * From now on changes of this table count, which may be partitioned: when it gets or loses a
 * partition, core says that it has changed.  Relies on StorePartitionBound() and
 * heap_drop_with_catalog() in heap.c and DetachPartitionFinalize() in tablecmds.c.
 */
void
la_insert_watch(Oid table)
{
	static bool listening = false;

	/* There is room for few who listen. */
	if (unlikely(!listening))
		CacheRegisterRelcacheCallback(count_tree_change, (Datum) 0);
	listening = true;
	*word_of(table) |= bit_of(table);
}

/*
 * How many changes there have been of tables that are watched.  They count among the others,
 * too.
 */
uint64
la_insert_tree_changes(void)
{
	return tree_changes;
}

/*
 * How many messages there have been of changes of any table, since one has been watched.
 */
uint64
la_insert_table_messages(void)
{
	return table_messages;
}

static inline uint64 *
word_of(Oid table)
{
	return &watched[table / 64 % lengthof(watched)];
}

static inline uint64
bit_of(Oid table)
{
	return UINT64CONST(1) << table % 64;
}

static void
listen_once(void)
{
	static bool listening = false;

	if (likely(listening))
		return;
	listening = true;
	for (int i = 0; i < lengthof(era_caches); i++)
		CacheRegisterSyscacheCallback(era_caches[i], begin_era, (Datum) 0);
	for (int i = 0; i < lengthof(other_caches); i++)
		CacheRegisterSyscacheCallback(other_caches[i], count_change, (Datum) 0);
}

/*
 * Syscache callback.
 */
static void
begin_era(Datum argument, int cache, uint32 hash)
{
	era = era == INT_MAX ? 1 : era + 1;
	changes++;
}

/*
 * Syscache callback.
 */
static void
count_change(Datum argument, int cache, uint32 hash)
{
	changes++;
}

/*
 * Relcache callback; InvalidOid stands for all tables.
 */
static void
count_tree_change(Datum argument, Oid table)
{
	table_messages++;
	if (OidIsValid(table) && (*word_of(table) & bit_of(table)) == 0)
		return;
	changes++;
	tree_changes++;
}
