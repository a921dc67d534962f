/*-------------------------------------------------------------------------
 *
 * la_partition_functions.c
 *	  whether functions of users run while partitions are created
 *
 * Such a function could look at the parent, put rows into it, or change its partitions,
 * whatever it is declared as.  Core calls those of the key's type and operator class for a
 * bound, and those in expressions of the key and of indexes when it evaluates what is constant
 * in them.  Defaults and checks are copied as they are, but ATTACH PARTITION plans the checks of
 * the table that it attaches, to see whether they imply its bounds.
 *
 * Relies on transformPartitionBound() in parse_utilcmd.c, check_new_partition_bound() in
 * partbounds.c, ComputePartitionAttrs() in tablecmds.c, DefineIndex() in indexcmds.c,
 * RelationGetIndexExpressions() in relcache.c, ConstraintImpliedByRelConstraint() in tablecmds.c
 * and simplify_function() in clauses.c.
 *
 * Reads PartitionKeyData of partcache.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_index.h"
#include "catalog/pg_language.h"
#include "catalog/pg_partitioned_table.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "partitions/la_partition_functions.h"

static bool is_servers_type(Oid type);
static bool catalog_calls(int cache, Oid key, AttrNumber column);
static bool expression_calls(Node *node, void *context);
static bool may_be_called(Oid function, void *node);
static bool is_users(Oid function);
static bool is_sql(Oid function);

/*
 * Do they?  The parent is locked.
 */
bool
la_partition_calls_functions(Relation parent)
{
	PartitionKey key = RelationGetPartitionKey(parent);
	bool		found;

	found = !is_servers_type(key->parttypid[0]) ||
		is_users(key->partsupfunc[0].fn_oid) ||
		catalog_calls(PARTRELID, RelationGetRelid(parent),
					  Anum_pg_partitioned_table_partexprs);
	if (!found)
	{
		List	   *indexes = RelationGetIndexList(parent);

		foreach_oid(index, indexes)
			found = found ||
			catalog_calls(INDEXRELID, index, Anum_pg_index_indexprs) ||
			catalog_calls(INDEXRELID, index, Anum_pg_index_indpred);
		list_free(indexes);
	}
	return found;
}

/*
 * Do they when a table with the checks of this one, which is locked, is attached as a partition?
 */
bool
la_partition_checks_call_functions(Relation parent)
{
	const TupleConstr *constraints = RelationGetDescr(parent)->constr;
	bool		found = false;

	for (int i = 0; constraints != NULL && i < constraints->num_check; i++)
		found = found ||
			expression_calls(stringToNode(constraints->check[i].ccbin), NULL);
	return found;
}

/*
 * Is it sure that no function of users belongs to a type?  To a domain, and whatever has one in
 * it, there may.
 */
static bool
is_servers_type(Oid type)
{
	Oid			element = get_element_type(type);

	if (OidIsValid(element))
		return is_servers_type(element);
	return type < FirstNormalObjectId || get_typtype(type) == TYPTYPE_ENUM;
}

/*
 * Does an expression in a row of a catalog call them?  It is read as it is there, since nothing
 * of it shall be evaluated.
 */
static bool
catalog_calls(int cache, Oid key, AttrNumber column)
{
	HeapTuple	tuple = SearchSysCache1(cache, ObjectIdGetDatum(key));
	bool		is_null;
	bool		found;
	Datum		stored;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", key);
	stored = SysCacheGetAttr(cache, tuple, column, &is_null);
	found = !is_null &&
		expression_calls(stringToNode(TextDatumGetCString(stored)), NULL);
	ReleaseSysCache(tuple);
	return found;
}

/*
 * expression_tree_walker callback.  A function that is given a column is called for rows only,
 * unless its call is replaced by what is in it.
 */
static bool
expression_calls(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if ((IsA(node, CoerceToDomain) && !contain_var_clause(node)) ||
		check_functions_in_node(node, may_be_called, node))
		return true;
	return expression_tree_walker(node, expression_calls, context);
}

/*
 * check_functions_in_node callback: can planning an expression call this function, which the
 * node calls?
 */
static bool
may_be_called(Oid function, void *node)
{
	return is_users(function) &&
		(!contain_var_clause(node) || OidIsValid(get_func_support(function)) ||
		 is_sql(function));
}

static bool
is_users(Oid function)
{
	return function >= FirstNormalObjectId;
}

/*
 * Is a function written in SQL, so that its calls can be replaced?
 */
static bool
is_sql(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool		found;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	found = ((Form_pg_proc) GETSTRUCT(tuple))->prolang == SQLlanguageId;
	ReleaseSysCache(tuple);
	return found;
}
