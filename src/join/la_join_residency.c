/*-------------------------------------------------------------------------
 *
 * la_join_residency.c
 *	  whether the pages that joins ask for are in the system's cache
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/rel.h"

#include "join/la_join_residency.h"

/* Tablespaces of which that is known: arbitrary, few have more. */
#define TABLESPACES 16

/* Refusals without a read from a device between them, after which pages count as resident: arbitrary. */
#define QUIET_REFUSALS 2

/*
 * Rows for each page from a device above which a join does not wake at once, as in la_join_trial.c; rows after which they
 * are counted anew; and of so many joins, one wakes nevertheless.  Arbitrary.
 */
#define SPARSE_ROWS 8
#define ROWS_PER_COUNT 512
#define SPARSE_SHARE 16

typedef struct Known
{
	Oid			tablespace;
	LaResidency watch;
	int64		device_pages;	/* at the last refusal */
	uint32		quiet_refusals;
	uint32		rows;			/* that joins have looked up since the last
								 * count */
	uint32		pages;			/* that came from a device for these */
	bool		sparse;			/* were they few? */
	uint32		passed;			/* joins that could have woken meanwhile */
} Known;

static Known *find_known(Relation table);

/*
 * What all joins of the session have learnt about pages that are in memory: many are executed for a few
 * rows at a time, from which one alone would learn nothing.  What is known of one tablespace is not of others;
 * of a join, that of its first table counts.
 */
LaResidency *
la_join_residency(Relation table)
{
	return &find_known(table)->watch;
}

/*
 * A join that had pages read may not look ahead, which other executions of it would find out again, each by a walk
 * over its plan.  Where this process reads nothing from a device between them, they need not.
 */
void
la_join_residency_refused(Relation table)
{
	Known	   *known = find_known(table);
	int64		pages = la_residency_device_pages(&known->watch);

	known->quiet_refusals = pages >= 0 && pages == known->device_pages ?
		known->quiet_refusals + 1 : 0;
	known->device_pages = pages;
	if (known->quiet_refusals >= QUIET_REFUSALS)
		known->watch.resident = !known->watch.blind;
}

/*
 * A join has asked for pages, so many of which come from a device, for so many rows since it did so before.
 */
void
la_join_residency_asked(Relation table, uint32 rows, uint32 pages)
{
	Known	   *known = find_known(table);

	known->rows += rows;
	known->pages += pages;
	if (known->rows < ROWS_PER_COUNT)
		return;
	known->sparse = known->rows > SPARSE_ROWS * known->pages;
	known->rows = known->pages = 0;
}

/*
 * A join has had pages read.  Where few come from a device, one that is executed for some rows has nothing to gain: these pages
 * are not wanted together.  One of many rows tries it (la_join_trial.c).
 */
bool
la_join_residency_may_wake(Relation table)
{
	Known	   *known = find_known(table);

	return !known->sparse || ++known->passed % SPARSE_SHARE == 0;
}

static Known *
find_known(Relation table)
{
	static Known known[TABLESPACES] = {0};
	static uint32 oldest = 0;
	Oid			tablespace = table->rd_locator.spcOid;
	int			i = 0;

	while (i < TABLESPACES && known[i].watch.relation != NULL &&
		   known[i].tablespace != tablespace)
		i++;
	if (i == TABLESPACES)
		i = oldest++ % TABLESPACES;
	if (known[i].watch.relation == NULL || known[i].tablespace != tablespace)
	{
		memset(&known[i], 0, sizeof(Known));
		la_residency_init(&known[i].watch, table);
	}
	known[i].tablespace = tablespace;
	known[i].watch.relation = table;
	return &known[i];
}
