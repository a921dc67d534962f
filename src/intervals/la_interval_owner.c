/*-------------------------------------------------------------------------
 *
 * la_interval_owner.c
 *	  work that is done as the owner of a table
 *
 * Whoever looks after the partitions of a table, a superuser's session or a
 * worker, comes across functions of its owner: in the key, in the CHECK of a
 * domain, in defaults.  They are called with the owner's rights and no others,
 * cannot get at those of the session, and cannot leave settings behind: as in
 * VACUUM and ANALYZE.  Mirrors vacuum_rel() in vacuum.c.
 *
 * Reads config_generic of guc_tables.h.
 *
 * An error that ends a transaction or a subtransaction brings back what was
 * before, too.  A cancel is known by who has thrown it: a function of a table's owner can
 * throw any SQLSTATE, and must not stop the maintenance of other tables by that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tableam.h"
#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "intervals/la_interval_owner.h"
#include "la_sql_function.h"
#include "partitions/la_partition_create.h"

/*
 * Where tables are created, and how: as the server or the database says, whoever calls.  If
 * that is no place, as of a tablespace that was dropped, as by a server that says nothing:
 * core, too, does without it.
 */
static const char *const places[][2] = {
	{"default_tablespace", ""},
	{"default_table_access_method", DEFAULT_TABLE_ACCESS_METHOD},
};

static Oid
owner_of(Oid relation)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		la_partition_refuse_missing(relation);
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

/*
 * Becomes the owner of the relation, in this time zone, or the session's for
 * NULL.  Values become texts that do not depend on other settings.
 */
void
la_interval_owner_begin(LaIntervalOwner *before, Oid relation,
						const char *time_zone)
{
	Oid			owner = owner_of(relation);

	GetUserIdAndSecContext(&before->user, &before->security_context);
	SetUserIdAndSecContext(owner, before->security_context |
						   SECURITY_RESTRICTED_OPERATION);
	before->guc_level = la_sql_argument_begin_output();
	for (int i = 0; i < lengthof(places); i++)
	{
		const char *setting = places[i][0];
		const char *otherwise = places[i][1];
		bool		is_servers = find_option(setting, false, false, ERROR)->reset_source <=
			PGC_S_DATABASE;

		/*
		 * The value that sessions begin with, unless a role or a client says
		 * it.
		 */
		if (set_config_option(setting, is_servers ? GetConfigOptionResetString(setting) : otherwise,
							  PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true,
							  DEBUG1, false) <= 0)
			la_sql_argument_set(setting, otherwise);
	}
	if (time_zone != NULL)
		la_sql_argument_set("TimeZone", time_zone);
}

/*
 * Executes a command, whose names have to be qualified.
 */
void
la_interval_owner_execute(const char *command)
{
	SPI_connect();
	if (SPI_execute(command, false, 0) < 0)
		elog(ERROR, "command failed: %s", command);
	SPI_finish();
}

/*
 * The name of a relation as it stands in such a command.  Without a lock on it, it may have been
 * dropped just now.
 */
const char *
la_interval_owner_name(Oid relation)
{
	char	   *schema = get_namespace_name(get_rel_namespace(relation));
	char	   *name = get_rel_name(relation);

	if (schema == NULL || name == NULL)
		la_partition_refuse_missing(relation);
	return quote_qualified_identifier(schema, name);
}

void
la_interval_owner_end(const LaIntervalOwner *before)
{
	AtEOXact_GUC(false, before->guc_level);
	SetUserIdAndSecContext(before->user, before->security_context);
}

/*
 * As la_try(), but a cancel is thrown.
 */
ErrorData *
la_interval_try(LaTriedWork work, void *arg)
{
	ErrorData  *error = la_try(work, arg);

	if (error != NULL && la_interval_interrupted(error, ERRCODE_QUERY_CANCELED))
		ReThrowError(error);
	return error;
}

/*
 * Whether the session was interrupted: cancelled, by a user or by its statement_timeout, or at
 * the end of its lock_timeout.  Relies on ProcessInterrupts() in postgres.c, which takes the
 * flag of the interrupt back before it throws, so that the flag does not tell.
 */
bool
la_interval_interrupted(const ErrorData *error, int sqlstate)
{
	return error->sqlerrcode == sqlstate &&
		error->funcname != NULL &&
		strcmp(error->funcname, "ProcessInterrupts") == 0;
}
