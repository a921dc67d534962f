/*-------------------------------------------------------------------------
 *
 * la_partition_statement.c
 *	  the statement by which core would create a partition, and what that is called
 *
 * Whichever way a partition is created, it is the one of this statement:
 * parsed by core's grammar, its bound read by core's transformPartitionBound().
 * All names in it are qualified and quoted, so no search path matters.
 *
 * Storage options, and what is behind PARTITION BY, are texts of the caller, who has to write
 * them as in a statement.  They run with the caller's rights and could not do more than the
 * caller can; they are checked so that a slip does not become something else than what the
 * documentation says.
 *
 * A name is made of a pattern in which {parent} stands for the name of the
 * table, {bound} for the lower bound or the value, and {number} for 1, 2, 3.
 * Where the whole would be longer than names can be, the table's name is cut,
 * at the end of a character; the rest, by which the partitions differ, never
 * is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_tablespace.h"
#include "commands/tablespace.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "parser/parser.h"
#include "tcop/dest.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "partitions/la_partition_statement.h"

static void
append_literal(StringInfo text, char *value)
{
	appendStringInfoString(text, value == NULL ? "NULL"
						   : quote_literal_cstr(value));
}

/*
 * CREATE TABLE ... PARTITION OF for partition i.
 */
char *
la_partition_statement_text(const LaPartitionRequest *request,
							const char *name, int i)
{
	const LaPartitionSeries *series = request->series;
	const char *namespace;
	StringInfoData text;

	namespace = quote_identifier(get_namespace_name(get_rel_namespace(request->parent)));
	initStringInfo(&text);
	appendStringInfo(&text, "CREATE TABLE %s.%s PARTITION OF %s.%s FOR VALUES ",
					 namespace, quote_identifier(name),
					 namespace, quote_identifier(get_rel_name(request->parent)));
	appendStringInfoString(&text, series->is_list ? "IN (" : "FROM (");
	append_literal(&text, la_partition_series_bound(series, i));
	if (series->value_type != NULL)
		appendStringInfo(&text, "::%s", series->value_type);
	if (!series->is_list)
	{
		appendStringInfoString(&text, ") TO (");
		append_literal(&text, la_partition_series_bound(series, i + 1));
	}
	appendStringInfoChar(&text, ')');
	if (request->subpartitions != NULL)
		appendStringInfo(&text, " PARTITION BY %s", request->subpartitions);
	if (request->storage != NULL)
		appendStringInfo(&text, " WITH (%s)", request->storage);
	if (request->tablespace != NULL)
		appendStringInfo(&text, " TABLESPACE %s",
						 quote_identifier(request->tablespace));
	return text.data;
}

/*
 * That text as a statement.  Refuses one whose options are more than options.
 */
CreateStmt *
la_partition_statement_parse(const LaPartitionRequest *request,
							 char *text)
{
	CreateStmt *statement = NULL;
	ErrorContextCallback callback;
	List	   *parsed;

	la_partition_statement_begin_blame(&callback, text);
	parsed = raw_parser(text, RAW_PARSE_DEFAULT);
	error_context_stack = callback.previous;
	if (list_length(parsed) == 1)
		statement = (CreateStmt *) linitial_node(RawStmt, parsed)->stmt;
	if (statement == NULL || !IsA(statement, CreateStmt) ||
		statement->partbound == NULL || statement->accessMethod != NULL ||
		statement->oncommit != ONCOMMIT_NOOP ||
		(statement->partspec != NULL) != (request->subpartitions != NULL) ||
		(statement->options != NIL) != (request->storage != NULL) ||
		(statement->tablespacename != NULL) != (request->tablespace != NULL))
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("invalid options of partitions"),
				 errdetail("They make this statement: %s", text)));
	return statement;
}

/*
 * Storage options of the partition and of its TOAST table, checked.  Mirrors DefineRelation() in
 * tablecmds.c and ProcessUtilitySlow() in utility.c.
 */
Datum
la_partition_statement_storage(const LaPartitionRequest *request,
							   const char *name, Datum *toast)
{
	const char *const namespaces[] = HEAP_RELOPT_NAMESPACES;
	char	   *text = la_partition_statement_text(request, name, 0);
	List	   *options = la_partition_statement_parse(request, text)->options;
	Datum		table = transformRelOptions((Datum) 0, options, NULL, namespaces,
											true, false);

	(void) heap_reloptions(RELKIND_RELATION, table, true);
	*toast = transformRelOptions((Datum) 0, options, "toast", namespaces, true, false);
	(void) heap_reloptions(RELKIND_TOASTVALUE, *toast, true);
	return table;
}

/*
 * May the user create tables in this tablespace?  InvalidOid is the database's.  Mirrors
 * DefineRelation() in tablecmds.c.
 */
void
la_partition_statement_check_tablespace(Oid tablespace)
{
	if (OidIsValid(tablespace) && tablespace != MyDatabaseTableSpace)
	{
		AclResult	result = object_aclcheck(TableSpaceRelationId, tablespace, GetUserId(),
											 ACL_CREATE);

		if (result != ACLCHECK_OK)
			aclcheck_error(result, OBJECT_TABLESPACE, get_tablespace_name(tablespace));
	}
	if (tablespace == GLOBALTABLESPACE_OID)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("only shared relations can be placed in pg_global tablespace")));
}

/*
 * A position in an error message is one in our statement, not in the user's.
 * Mirrors _SPI_error_callback() in spi.c.
 */
static void
blame_internal_query(void *text)
{
	int			position = geterrposition();

	if (position > 0)
	{
		errposition(0);
		internalerrposition(position);
		internalerrquery(text);
	}
	else
		errcontext("SQL statement \"%s\"", (const char *) text);
}

/*
 * Has errors tell the statement, until the caller sets error_context_stack
 * back to "previous".
 */
void
la_partition_statement_begin_blame(ErrorContextCallback *callback, char *text)
{
	callback->previous = error_context_stack;
	callback->callback = blame_internal_query;
	callback->arg = text;

	error_context_stack = callback;
}

/*
 * Executes the statement, as a user would.
 */
void
la_partition_statement_execute(const LaPartitionRequest *request,
							   const char *name, int i)
{
	char	   *text = la_partition_statement_text(request, name, i);
	PlannedStmt *statement = makeNode(PlannedStmt);
	ErrorContextCallback callback;

	statement->commandType = CMD_UTILITY;
	statement->utilityStmt = (Node *) la_partition_statement_parse(request, text);
	statement->stmt_len = strlen(text);
	la_partition_statement_begin_blame(&callback, text);
	ProcessUtility(statement, text, false, PROCESS_UTILITY_QUERY, NULL, NULL,
				   None_Receiver, NULL);
	error_context_stack = callback.previous;
	CommandCounterIncrement();
}

#define DEFAULT_PATTERN "{parent}_{bound}"

static bool
skip_word(const char **at, const char *word)
{
	size_t		length = strlen(word);

	if (strncmp(*at, word, length) != 0)
		return false;
	*at += length;
	return true;
}

/*
 * Writes the pattern with what its words stand for.  Returns how often the
 * parent's name is in it.
 */
static int
expand_pattern(StringInfo name, const char *pattern, const char *parent,
			   const char *bound, int i)
{
	int			parents = 0;

	for (const char *at = pattern; *at != '\0';)
	{
		if (skip_word(&at, "{parent}"))
		{
			appendStringInfoString(name, parent);
			parents++;
		}
		else if (skip_word(&at, "{bound}"))
			appendStringInfoString(name, bound);
		else if (skip_word(&at, "{number}"))
			appendStringInfo(name, "%d", i + 1);
		else if (*at == '{' || *at == '}')
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("invalid pattern of names: \"%s\"", pattern),
					 errdetail("In braces there can be \"parent\", \"bound\" or \"number\".")));
		else
			appendStringInfoChar(name, *at++);
	}
	return parents;
}

/*
 * The name of partition i; NULL stands for the pattern that is usual.
 */
char *
la_partition_name(const char *pattern, const char *parent,
				  const LaPartitionSeries *series, int i)
{
	char	   *bound = la_partition_series_label(series, i);
	StringInfoData name;
	int			parents;
	int			room;

	if (pattern == NULL)
		pattern = DEFAULT_PATTERN;
	initStringInfo(&name);
	parents = expand_pattern(&name, pattern, parent, bound, i);
	if (name.len >= NAMEDATALEN && parents > 0)
	{
		int			length = strlen(parent);

		room = length - (name.len - (NAMEDATALEN - 1) + parents - 1) / parents;
		if (room > 0)
		{
			resetStringInfo(&name);
			room = pg_mbcliplen(parent, length, room);
			expand_pattern(&name, pattern, pnstrdup(parent, room), bound, i);
		}
	}
	if (name.len == 0 || name.len >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(name.len == 0 ? ERRCODE_INVALID_NAME : ERRCODE_NAME_TOO_LONG),
				 errmsg("no partition can be called \"%s\"", name.data),
				 errdetail("Names have 1 to %d bytes.", NAMEDATALEN - 1),
				 errhint("Give a pattern of names with {number} in place of {bound}, or a shorter one.")));
	return name.data;
}
