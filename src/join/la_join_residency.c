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

typedef struct Known
{
	Oid			tablespace;
	LaResidency watch;
	int64		device_pages;	/* at the last refusal */
	uint32		quiet_refusals;
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
