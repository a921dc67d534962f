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
 * before, too.
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
#include "la_sql_argument.h"

/*
 * Where tables are created, and how: as the server or the database says, whoever calls.  If that is no
 * place, as of a tablespace that was dropped, as by a server that says nothing: core, too, does without it.
 */
static const char *const places[][2] = {
	{"default_tablespace", ""},
	{"default_table_access_method", DEFAULT_TABLE_ACCESS_METHOD},
};

static const char *value_of_server(const char *setting, const char *otherwise);
static Oid	owner_of(Oid relation);

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
		if (set_config_option(places[i][0], value_of_server(places[i][0], places[i][1]),
							  PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true,
							  DEBUG1, false) <= 0)
			la_sql_argument_set(places[i][0], places[i][1]);
	}
	if (time_zone != NULL)
		la_sql_argument_set("TimeZone", time_zone);
}

/*
 * The value of a setting that sessions begin with, unless it comes from a role or a client:
 * then that of a server that says nothing.
 */
static const char *
value_of_server(const char *setting, const char *otherwise)
{
	struct config_generic *found = find_option(setting, false, false, ERROR);

	return found->reset_source <= PGC_S_DATABASE
		? GetConfigOptionResetString(setting) : otherwise;
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
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relation)));
	return quote_qualified_identifier(schema, name);
}

void
la_interval_owner_end(const LaIntervalOwner *before)
{
	AtEOXact_GUC(false, before->guc_level);
	SetUserIdAndSecContext(before->user, before->security_context);
}

static Oid
owner_of(Oid relation)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relation)));
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}
