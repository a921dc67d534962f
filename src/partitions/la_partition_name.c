/*-------------------------------------------------------------------------
 *
 * la_partition_name.c
 *	  what a partition is called
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

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"

#include "partitions/la_partition_name.h"

#define DEFAULT_PATTERN "{parent}_{bound}"

static int	expand(StringInfo name, const char *pattern, const char *parent,
				   const char *bound, int i);
static bool take(const char **at, const char *word);

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
	parents = expand(&name, pattern, parent, bound, i);
	if (name.len >= NAMEDATALEN && parents > 0)
	{
		int			length = strlen(parent);

		room = length - (name.len - (NAMEDATALEN - 1) + parents - 1) / parents;
		if (room > 0)
		{
			resetStringInfo(&name);
			room = pg_mbcliplen(parent, length, room);
			expand(&name, pattern, pnstrdup(parent, room), bound, i);
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

/*
 * Writes the pattern with what its words stand for.  Returns how often the
 * parent's name is in it.
 */
static int
expand(StringInfo name, const char *pattern, const char *parent,
	   const char *bound, int i)
{
	int			parents = 0;

	for (const char *at = pattern; *at != '\0';)
	{
		if (take(&at, "{parent}"))
		{
			appendStringInfoString(name, parent);
			parents++;
		}
		else if (take(&at, "{bound}"))
			appendStringInfoString(name, bound);
		else if (take(&at, "{number}"))
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

static bool
take(const char **at, const char *word)
{
	size_t		length = strlen(word);

	if (strncmp(*at, word, length) != 0)
		return false;
	*at += length;
	return true;
}
