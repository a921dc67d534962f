/*-------------------------------------------------------------------------
 *
 * la_interval_query.c
 *	  queries of the extension's tables of policies and of their state
 *
 * Users cannot write them but through functions, which check what they do and
 * then write with the rights of the tables' owner.  Queries name tables with
 * their schema and have no other search path than pg_catalog.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/catalog.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"

#include "intervals/la_interval_owner.h"
#include "intervals/la_interval_query.h"

#define POLICY "pg_lookahead_interval_policy"
#define STATE "pg_lookahead_interval_state"

/* Whether rows are written by us just now, for somebody who may have that done. */
static bool is_running = false;

/*
 * Whether this database has the extension.
 */
bool
la_interval_query_has_tables(void)
{
	return OidIsValid(get_extension_oid("pg_lookahead", true));
}

static Oid
find_schema(void)
{
	Oid			extension = get_extension_oid("pg_lookahead", true);

	if (!OidIsValid(extension))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("extension \"%s\" does not exist", "pg_lookahead"),
				 errhint("Run CREATE EXTENSION pg_lookahead in this database.")));
	return get_extension_schema(extension);
}

/*
 * The table of policies.  ERROR where this database has not the extension.
 */
Oid
la_interval_query_policy_table(void)
{
	return get_relname_relid(POLICY, find_schema());
}

Oid
la_interval_query_state_table(void)
{
	return get_relname_relid(STATE, find_schema());
}

/*
 * Whether what fires a trigger of these tables is a statement of ours, and not one of a user.
 */
bool
la_interval_query_is_running(void)
{
	return is_running;
}

void
la_interval_query_add(LaIntervalParameters *parameters, Oid type, Datum value,
					  bool is_null)
{
	int			i = parameters->count++;

	Assert(i < LA_INTERVAL_PARAMETERS);
	parameters->types[i] = type;
	parameters->values[i] = value;
	parameters->nulls[i] = is_null ? 'n' : ' ';
}

/*
 * The first parameters of most queries: a table and its row type.
 */
LaIntervalParameters
la_interval_query_begin(Oid parent)
{
	LaIntervalParameters parameters = {0};

	la_interval_query_add(&parameters, OIDOID, ObjectIdGetDatum(parent), false);
	la_interval_query_add(&parameters, OIDOID,
						  ObjectIdGetDatum(get_rel_type_id(parent)), false);
	return parameters;
}

/*
 * A text, or NULL.
 */
void
la_interval_query_add_text(LaIntervalParameters *parameters, const char *value)
{
	la_interval_query_add(parameters, TEXTOID,
						  value == NULL ? (Datum) 0 : CStringGetTextDatum(value),
						  value == NULL);
}

/*
 * The names of a query were looked up.  Is a relation among them that is neither of the
 * extension nor of the server?  A schema can be renamed meanwhile, and another one take its
 * name; what is in that must not be read, nor its functions called, as the owner of ours.  All
 * relations are locked by now, so names are not looked up again (relies on
 * RevalidateCachedQuery() in plancache.c).
 */
static void
refuse_others(SPIPlanPtr plan, Oid policy, Oid state)
{
	foreach_ptr(CachedPlanSource, source, SPI_plan_get_plan_sources(plan))
	{
		foreach_oid(relation, source->relationOids)
		{
			if (relation != policy && relation != state &&
				!IsCatalogRelationOid(relation))
				ereport(ERROR,
						(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
						 errmsg("the schema of extension \"%s\" was renamed meanwhile",
								"pg_lookahead")));
		}
	}
}

/*
 * The query with the names of the tables in place of those in braces.
 */
static char *
name_tables(const char *query, const char *schema)
{
	StringInfoData text;

	if (schema == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("the schema of extension \"%s\" does not exist", "pg_lookahead")));
	initStringInfo(&text);
	for (const char *at = query; *at != '\0'; at++)
	{
		if (*at != '{')
		{
			appendStringInfoChar(&text, *at);
			continue;
		}
		appendStringInfoString(&text, quote_qualified_identifier(schema,
																 at[1] == 'p' ? POLICY : STATE));
		at = strchr(at, '}');
	}
	return text.data;
}

static void
execute_plan(SPIPlanPtr plan, LaIntervalParameters *parameters, const char *text)
{
	bool		was_running = is_running;

	is_running = true;
	PG_TRY();
	{
		if (SPI_execute_plan(plan, parameters->values, parameters->nulls, false, 0) < 0)
			elog(ERROR, "query of policies failed: %s", text);
	}
	PG_CATCH();
	{
		is_running = was_running;
		PG_RE_THROW();
	}
	PG_END_TRY();
	is_running = was_running;
}

/*
 * Executes a query, in which {policy} is the table of policies and {state} that
 * of states, with an active snapshot.  Returns how many rows were found or
 * changed.
 */
uint64
la_interval_query_execute(const char *query,
						  LaIntervalParameters *parameters,
						  LaIntervalRow receive, void *arg)
{
	MemoryContext caller = CurrentMemoryContext;
	Oid			schema = find_schema();
	Oid			table = get_relname_relid(POLICY, schema);
	char	   *text;
	LaIntervalOwner before;
	SPIPlanPtr	plan;
	uint64		processed;

	text = name_tables(query, get_namespace_name(schema));

	la_interval_owner_begin(&before, table, NULL);
	SPI_connect();
	plan = SPI_prepare(text, parameters->count, parameters->types);
	if (plan == NULL)
		elog(ERROR, "query of policies failed: %s", text);
	refuse_others(plan, table, get_relname_relid(STATE, schema));
	execute_plan(plan, parameters, text);
	processed = SPI_processed;
	for (uint64 i = 0; receive != NULL && i < processed; i++)
	{
		MemoryContext inner = MemoryContextSwitchTo(caller);

		receive(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, arg);
		MemoryContextSwitchTo(inner);
	}
	SPI_finish();
	la_interval_owner_end(&before);
	return processed;
}

static void
receive_oid(HeapTuple row, TupleDesc columns, void *arg)
{
	List	  **oids = arg;
	bool		is_null;

	*oids = lappend_oid(*oids,
						DatumGetObjectId(heap_getattr(row, 1, columns, &is_null)));
}

/*
 * The OIDs that such a query returns.
 */
List *
la_interval_query_list(const char *query,
					   LaIntervalParameters *parameters)
{
	List	   *oids = NIL;

	la_interval_query_execute(query, parameters, receive_oid, &oids);
	return oids;
}
