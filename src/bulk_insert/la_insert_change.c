/*-------------------------------------------------------------------------
 *
 * la_insert_change.c
 *	  changes of what inserts are judged by
 *
 * All that is looked at to judge an insert is read from catalogs.  Core tells every
 * session what has changed in them, whoever has changed it or has taken a change back,
 * when the session is about to look at catalogs; relies on AcceptInvalidationMessages() in
 * inval.c.  Findings that are
 * kept (la_insert_finding.c) hold until the next change.
 *
 * A judgement that is in a kept plan cannot be found out again.  It need not when core
 * makes the plan anew (la_insert_depend.c).  Casts and operator classes that belong to a type can be made
 * later, without a change of the type.  That is rare, and core does not make plans anew for it, nor parse their statements again,
 * which could change what they do: it begins another era, and a judgement on types of
 * users holds for one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "utils/inval.h"
#include "utils/syscache.h"

#include "bulk_insert/la_insert_change.h"

/* What is looked at of a type that is not in its row, and can be made later. */
static const int era_caches[] = {CASTSOURCETARGET, CLAOID, AMOPOPID, AMPROCNUM};

/*
 * What else is looked at.  One cache of each catalog is enough; the CHECK constraints of
 * domains have none that they are found by.  The number of a row type's columns, in
 * pg_class, only grows when one is added; a row of pg_range comes and goes with its type;
 * and aggregates are not in expressions that are stored.
 */
static const int other_caches[] = {TYPEOID, CONSTROID, PROCOID, OPEROID, ATTNUM};

/* 0 is no era. */
static int	era = 1;
static uint64 changes = 0;

static void listen_once(void);
static void begin_era(Datum argument, int cache, uint32 hash);
static void count_change(Datum argument, int cache, uint32 hash);

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
