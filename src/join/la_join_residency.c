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

/*
 * What all joins of the session have learnt about pages that are in memory: many are executed for a few
 * rows at a time, from which one alone would learn nothing.  What is known of one tablespace is not of others;
 * of a join, that of its first table counts.
 */
LaResidency *
la_join_residency(Relation table)
{
	static struct
	{
		Oid			tablespace;
		LaResidency watch;
	}			known[TABLESPACES] = {0};
	static uint32 oldest = 0;
	Oid			tablespace = table->rd_locator.spcOid;
	int			i = 0;

	while (i < TABLESPACES && known[i].watch.relation != NULL &&
		   known[i].tablespace != tablespace)
		i++;
	if (i == TABLESPACES)
		i = oldest++ % TABLESPACES;
	if (known[i].watch.relation == NULL || known[i].tablespace != tablespace)
		la_residency_init(&known[i].watch, table);
	known[i].tablespace = tablespace;
	known[i].watch.relation = table;
	return &known[i].watch;
}
