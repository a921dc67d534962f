/*-------------------------------------------------------------------------
 *
 * la_needed_error.c
 *	  the error of a row that has no partition, and gets none
 *
 * It is core's, with a hint.  Mirrors ExecFindPartition() and
 * ExecBuildSlotPartitionKeyDescription() in execPartition.c, for a key of one column or
 * expression.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/ruleutils.h"

#include "needed_partitions/la_needed_error.h"

/* As core shows at most. */
#define MOST_SHOWN 64

static const char *describe_key(Relation table, Datum key, bool is_null);
static bool may_see_key(Relation table);

void
la_needed_refuse(Relation table, Datum key, bool is_null, const char *why)
{
	const char *description = describe_key(table, key, is_null);

	ereport(ERROR,
			(errcode(ERRCODE_CHECK_VIOLATION),
			 errmsg("no partition of relation \"%s\" found for row",
					RelationGetRelationName(table)),
			 description == NULL ? 0
			 : errdetail("Partition key of the failing row contains %s.", description),
			 errhint("None was created for it: %s.", why),
			 errtable(table)));
}

/*
 * The key and its value, or NULL where the user must not see that.
 */
static const char *
describe_key(Relation table, Datum key, bool is_null)
{
	Oid			type = get_partition_col_typid(RelationGetPartitionKey(table), 0);
	char	   *value = "null";
	const char *dots = "";
	Oid			output;
	bool		is_varlena;

	if (!may_see_key(table))
		return NULL;
	if (!is_null)
	{
		getTypeOutputInfo(type, &output, &is_varlena);
		value = OidOutputFunctionCall(output, key);
	}
	if (strlen(value) > MOST_SHOWN)
	{
		value[pg_mbcliplen(value, strlen(value), MOST_SHOWN)] = '\0';
		dots = "...";
	}
	return psprintf("(%s) = (%s%s)",
					pg_get_partkeydef_columns(RelationGetRelid(table), true),
					value, dots);
}

static bool
may_see_key(Relation table)
{
	Oid			relid = RelationGetRelid(table);
	AttrNumber	column = get_partition_col_attnum(RelationGetPartitionKey(table), 0);

	if (check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED)
		return false;
	return pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK ||
		(column != InvalidAttrNumber &&
		 pg_attribute_aclcheck(relid, column, GetUserId(), ACL_SELECT) == ACLCHECK_OK);
}
