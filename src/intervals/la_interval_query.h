/*-------------------------------------------------------------------------
 *
 * la_interval_query.h
 *	  queries of the extension's tables of policies and of their state
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_QUERY_H
#define LA_INTERVAL_QUERY_H

#include "access/htup.h"
#include "access/tupdesc.h"
#include "nodes/pg_list.h"

/* What of a row of the table of policies changes whenever the row does. */
#define LA_INTERVAL_VERSION "ctid::pg_catalog.text || ' ' || xmin::pg_catalog.text"

/* Most parameters that a query has. */
#define LA_INTERVAL_PARAMETERS 20

/* A query's parameters, of which nothing is set is NULL. */
typedef struct LaIntervalParameters
{
	int			count;
	Oid			types[LA_INTERVAL_PARAMETERS];
	Datum		values[LA_INTERVAL_PARAMETERS];
	char		nulls[LA_INTERVAL_PARAMETERS];
} LaIntervalParameters;

/* Called for each row that comes back, in the memory context of the caller. */
typedef void (*LaIntervalRow) (HeapTuple row, TupleDesc columns, void *arg);

extern bool la_interval_query_has_tables(void);
extern Oid	la_interval_query_policy_table(void);
extern Oid	la_interval_query_state_table(void);
extern bool la_interval_query_is_running(void);
extern LaIntervalParameters la_interval_query_begin(Oid parent);
extern void la_interval_query_add(LaIntervalParameters *parameters, Oid type,
								  Datum value, bool is_null);
extern void la_interval_query_add_text(LaIntervalParameters *parameters,
									   const char *value);
extern uint64 la_interval_query_execute(const char *query,
										LaIntervalParameters *parameters,
										LaIntervalRow receive, void *arg);
extern List *la_interval_query_list(const char *query,
									LaIntervalParameters *parameters);

#endif							/* LA_INTERVAL_QUERY_H */
