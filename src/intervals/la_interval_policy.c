/*-------------------------------------------------------------------------
 *
 * la_interval_policy.c
 *	  which partitions a table shall have
 *
 * A policy is a row of a table that dumps contain.  It has the OID of the
 * parent and that of its row type, which live and die together: of another
 * table that has got the OID of a dropped one, the row type is another.  Both
 * are dumped as names.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "nodes/pg_list.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "intervals/la_interval_policy.h"
#include "intervals/la_interval_query.h"
#include "intervals/la_interval_state.h"

#define COLUMNS "parent, row_type, step, origin, change_starts, change_steps, time_zone, " \
	"premake, retention, retention_action, names, tablespace, storage, " \
	"max_partitions, max_distance, analyze_every"

#define READ "SELECT " COLUMNS ", " LA_INTERVAL_VERSION \
	" FROM {policy} WHERE parent = $1 AND row_type = $2"

/* Where a row of such a query is put, with the columns in the order of COLUMNS. */
typedef struct LaIntervalFound
{
	Oid			parent;
	LaIntervalPolicy *policy;	/* or NULL */
} LaIntervalFound;

/*
 * Executes a statement whose parameters are the table and its row type.
 */
static uint64
execute_for_table(Oid parent, const char *statement, LaIntervalRow receiver, void *arg)
{
	LaIntervalParameters parameters = la_interval_query_begin(parent);

	return la_interval_query_execute(statement, &parameters, receiver, arg);
}

static char *
get_text(HeapTuple row, TupleDesc columns, int number)
{
	bool		is_null;
	Datum		value = heap_getattr(row, number, columns, &is_null);

	return is_null ? NULL : TextDatumGetCString(value);
}

static int
get_texts(HeapTuple row, TupleDesc columns, int number, char ***texts)
{
	bool		is_null;
	Datum		value = heap_getattr(row, number, columns, &is_null);
	Datum	   *elements;
	int			count;

	deconstruct_array_builtin(DatumGetArrayTypeP(value), TEXTOID, &elements,
							  NULL, &count);
	*texts = palloc_array(char *, Max(count, 1));
	for (int i = 0; i < count; i++)
		(*texts)[i] = TextDatumGetCString(elements[i]);
	return count;
}

static void
receive_policy(HeapTuple row, TupleDesc columns, void *arg)
{
	LaIntervalFound *found = arg;
	LaIntervalPolicy *policy = palloc0_object(LaIntervalPolicy);
	int			i = 3;			/* behind parent and row_type */
	int			starts;
	int			steps;
	Datum		value;
	bool		is_null;

	policy->parent = found->parent;
	policy->step = get_text(row, columns, i++);
	policy->origin = get_text(row, columns, i++);
	starts = get_texts(row, columns, i++, &policy->change_starts);
	steps = get_texts(row, columns, i++, &policy->change_steps);
	policy->changes = Min(starts, steps);
	policy->time_zone = get_text(row, columns, i++);
	policy->premake = DatumGetInt32(heap_getattr(row, i++, columns, &is_null));
	policy->retention = get_text(row, columns, i++);
	policy->drops = strcmp(get_text(row, columns, i++), "drop") == 0;
	policy->names = get_text(row, columns, i++);
	value = heap_getattr(row, i++, columns, &is_null);
	policy->tablespace = is_null ? NULL : pstrdup(NameStr(*DatumGetName(value)));
	policy->storage = get_text(row, columns, i++);
	policy->max_partitions = DatumGetInt32(heap_getattr(row, i++, columns, &is_null));
	policy->max_distance = DatumGetInt32(heap_getattr(row, i++, columns, &is_null));
	value = heap_getattr(row, i++, columns, &is_null);
	if (!is_null)
	{
		policy->analyze_every = palloc_object(Interval);
		*policy->analyze_every = *DatumGetIntervalP(value);
	}
	policy->version = get_text(row, columns, i);
	found->policy = policy;
}

static LaIntervalPolicy *
find_policy(Oid parent, const char *query)
{
	LaIntervalFound found = {.parent = parent};

	(void) execute_for_table(parent, query, receive_policy, &found);
	return found.policy;
}

/*
 * The policy of a table, or NULL.
 */
LaIntervalPolicy *
la_interval_policy_read(Oid parent)
{
	return find_policy(parent, READ);
}

/*
 * The same, which stays as it is until the transaction ends: for those who do what it says.
 * Whoever sets a policy locks the table first, so do they.
 */
LaIntervalPolicy *
la_interval_policy_lock(Oid parent)
{
	return find_policy(parent, READ " FOR SHARE");
}

/*
 * That of a table which has one.
 */
LaIntervalPolicy *
la_interval_policy_need(Oid parent)
{
	LaIntervalPolicy *policy = la_interval_policy_read(parent);

	if (policy == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("table \"%s\" has no interval policy", get_rel_name(parent)),
				 errhint("Use pg_lookahead_set_interval() to give it one.")));
	return policy;
}

/*
 * Removes a policy that another one is to replace.  Of its state what was begun stays.
 */
static void
forget_policy(Oid parent)
{
	LaIntervalParameters parameters = {0};

	la_interval_query_add(&parameters, OIDOID, ObjectIdGetDatum(parent), false);
	la_interval_query_execute("UPDATE {state} SET last_run = NULL, next_run = NULL, last_analyze = NULL, "
							  "attempts = 0, last_error = NULL, last_sqlstate = NULL, blocked = NULL "
							  "WHERE parent = $1",
							  &parameters, NULL, NULL);
	la_interval_query_execute("DELETE FROM {policy} WHERE parent = $1",
							  &parameters, NULL, NULL);
}

static Datum
make_texts(char **texts, int count)
{
	Datum	   *elements = palloc_array(Datum, Max(count, 1));

	for (int i = 0; i < count; i++)
		elements[i] = CStringGetTextDatum(texts[i]);
	return PointerGetDatum(construct_array_builtin(elements, count, TEXTOID));
}

/*
 * Writes a policy in place of one that the table may have, and forgets what
 * maintenance found.  That it has a state tells it from one of a dump.
 */
void
la_interval_policy_write(const LaIntervalPolicy *policy)
{
	LaIntervalParameters parameters = la_interval_query_begin(policy->parent);

	(void) la_interval_policy_remove_stale(policy->parent);
	forget_policy(policy->parent);
	la_interval_state_begin(policy->parent);

	la_interval_query_add_text(&parameters, policy->step);
	la_interval_query_add_text(&parameters, policy->origin);
	la_interval_query_add(&parameters, TEXTARRAYOID,
						  make_texts(policy->change_starts, policy->changes), false);
	la_interval_query_add(&parameters, TEXTARRAYOID,
						  make_texts(policy->change_steps, policy->changes), false);
	la_interval_query_add_text(&parameters, policy->time_zone);
	la_interval_query_add(&parameters, INT4OID,
						  Int32GetDatum(policy->premake), false);
	la_interval_query_add_text(&parameters, policy->retention);
	la_interval_query_add_text(&parameters, policy->drops ? "drop" : "detach");
	la_interval_query_add_text(&parameters, policy->names);
	la_interval_query_add_text(&parameters, policy->tablespace);
	la_interval_query_add_text(&parameters, policy->storage);
	la_interval_query_add(&parameters, INT4OID,
						  Int32GetDatum(policy->max_partitions), false);
	la_interval_query_add(&parameters, INT4OID,
						  Int32GetDatum(policy->max_distance), false);
	la_interval_query_add(&parameters, INTERVALOID,
						  IntervalPGetDatum(policy->analyze_every),
						  policy->analyze_every == NULL);
	if (la_interval_query_execute("INSERT INTO {policy} (" COLUMNS ") VALUES "
								  "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::pg_catalog.name, $13, $14, $15, $16)",
								  &parameters, NULL, NULL) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the interval policy of \"%s\" was not written",
						get_rel_name(policy->parent)),
				 errhint("Look at the triggers and rules of the table pg_lookahead_interval_policy.")));
}

/*
 * Whether there was one.  Of its state what was begun stays, for a policy to come.
 */
bool
la_interval_policy_remove(Oid parent)
{
	LaIntervalParameters parameters = {0};

	la_interval_query_add(&parameters, OIDOID, ObjectIdGetDatum(parent), false);
	la_interval_query_execute("DELETE FROM {state} WHERE parent = $1 AND detaching IS NULL",
							  &parameters, NULL, NULL);
	return la_interval_query_execute("DELETE FROM {policy} WHERE parent = $1",
									 &parameters, NULL, NULL) > 0;
}

/*
 * Removes the policy of a table that is no more, even where another one has
 * its OID.
 */
bool
la_interval_policy_remove_stale(Oid parent)
{
	la_interval_state_remove_stale(parent);
	return execute_for_table(parent, "DELETE FROM {policy} WHERE parent = $1 AND row_type <> $2",
							 NULL, NULL) > 0;
}

/*
 * The OIDs of all tables with a policy, stale ones too.
 */
List *
la_interval_policy_parents(void)
{
	LaIntervalParameters parameters = {0};

	return la_interval_query_list("SELECT parent FROM {policy} ORDER BY 1",
								  &parameters);
}
