/*-------------------------------------------------------------------------
 *
 * la_partition_table.c
 *	  the table that a partition is, without its being one
 *
 * What core's functions are told of columns, defaults and constraints is the
 * same for all partitions, and read once.  Mirrors DefineRelation() in
 * tablecmds.c and ProcessUtilitySlow() in utility.c.
 *
 * Whoever creates partitions writes into the catalogs that they have all that
 * from the parent (la_partition_direct.c), or has core do it
 * (la_partition_attached.c): then each thing is the table's own until core has
 * found it in the parent, too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/attmap.h"
#include "access/table.h"
#include "access/toast_compression.h"
#include "access/xact.h"
#include "catalog/heap.h"
#include "catalog/namespace.h"
#include "catalog/pg_constraint.h"
#include "catalog/toasting.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "commands/tablespace.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "la_compat.h"
#include "partitions/la_partition_statement.h"
#include "partitions/la_partition_table.h"

#ifdef LA_PARTITIONS_PORTED

/* What all partitions have in common. */
struct LaPartitionTable
{
	bool		inherits;		/* written as what the parent has, too */
	Oid			namespace;
	Oid			tablespace;
	Oid			access_method;
	Oid			owner;
	char		persistence;
	TupleDesc	columns;
	List	   *stored;			/* CookedConstraints: defaults, checks */
	List	   *not_nulls;		/* CookedConstraints */
	List	   *own_not_nulls;	/* Constraints, the same, where it does not
								 * inherit */
	Datum		options;
	Datum		toast_options;
};

/*
 * That of the parent, which the user has to have the rights to use and to create tables in (the
 * statement looks the parent up by its name).  Partitions of a temporary table are temporary,
 * too.
 */
static Oid
choose_namespace(Relation parent)
{
	char	   *schema = get_namespace_name(RelationGetNamespace(parent));
	RangeVar   *name = makeRangeVar(schema, RelationGetRelationName(parent), -1);

	if (RelationUsesLocalBuffers(parent))
	{
		name->relpersistence = RELPERSISTENCE_TEMP;
		if (InSecurityRestrictedOperation())
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("cannot create temporary table within security-restricted operation")));
	}
	else
		(void) LookupExplicitNamespace(schema, false);
	return RangeVarGetAndCheckCreationNamespace(name, NoLock, NULL);
}

/*
 * The one that was asked for, or the parent's, or the session's.
 */
static Oid
choose_tablespace(const LaPartitionRequest *request, Relation parent)
{
	Oid			tablespace = parent->rd_rel->reltablespace;

	if (request->tablespace != NULL)
		tablespace = get_tablespace_oid(request->tablespace, false);
	if (!OidIsValid(tablespace))
		tablespace = GetDefaultTablespace(parent->rd_rel->relpersistence, false);
	la_partition_statement_check_tablespace(tablespace);
	return tablespace;
}

static ColumnDef *
column_of(Form_pg_attribute attribute, bool not_null, bool inherits)
{
	ColumnDef  *column = makeColumnDef(NameStr(attribute->attname),
									   attribute->atttypid,
									   attribute->atttypmod,
									   attribute->attcollation);

	column->storage = attribute->attstorage;
	column->generated = attribute->attgenerated;
	if (CompressionMethodIsValid(attribute->attcompression))
		column->compression = pstrdup(GetCompressionMethodName(attribute->attcompression));
	column->identity = inherits ? attribute->attidentity : '\0';
	column->inhcount = inherits ? 1 : 0;
	column->is_local = !inherits;
	column->is_not_null = not_null;
	return column;
}

static bool
has_not_null(List *not_nulls, AttrNumber attribute)
{
	foreach_ptr(CookedConstraint, constraint, not_nulls)
	{
		if (constraint->attnum == attribute)
			return true;
	}
	return false;
}

static CookedConstraint *
new_constraint(ConstrType type)
{
	CookedConstraint *constraint = palloc0_object(CookedConstraint);

	constraint->contype = type;
	constraint->is_enforced = true;
	return constraint;
}

/*
 * An expression of the parent as one of a partition, which lacks its dropped
 * columns.
 */
static Node *
translate_expression(Node *expression, const AttrMap *map)
{
	bool		whole_row;
	Node	   *translated = map_variable_attnos(expression, 1, 0, map,
												 InvalidOid, &whole_row);

	if (whole_row)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot convert whole-row table reference")));
	return translated;
}

/*
 * Defaults and generation expressions.
 */
static List *
read_defaults(Relation parent, const AttrMap *map)
{
	TupleDesc	columns = RelationGetDescr(parent);
	List	   *defaults = NIL;

	for (int i = 0; i < columns->natts; i++)
	{
		CookedConstraint *constraint;
		Node	   *expression;

		if (TupleDescAttr(columns, i)->attisdropped ||
			!TupleDescAttr(columns, i)->atthasdef)
			continue;
		expression = TupleDescGetDefault(columns, i + 1);
		if (expression == NULL)
			elog(ERROR, "default expression not found for attribute %d of relation \"%s\"",
				 i + 1, RelationGetRelationName(parent));
		constraint = new_constraint(CONSTR_DEFAULT);
		constraint->attnum = map->attnums[i];
		constraint->expr = translate_expression(expression, map);
		constraint->is_local = true;
		defaults = lappend(defaults, constraint);
	}
	return defaults;
}

static List *
read_checks(Relation parent, const AttrMap *map, bool inherits)
{
	TupleConstr *constraints = RelationGetDescr(parent)->constr;
	List	   *checks = NIL;

	for (int i = 0; constraints != NULL && i < constraints->num_check; i++)
	{
		const ConstrCheck *check = &constraints->check[i];
		CookedConstraint *constraint;

		if (check->ccnoinherit)
			continue;
		constraint = new_constraint(CONSTR_CHECK);
		constraint->name = pstrdup(check->ccname);
		constraint->expr = translate_expression(stringToNode(check->ccbin), map);
		constraint->is_enforced = check->ccenforced;
		constraint->skip_validation = !check->ccenforced;
		constraint->inhcount = inherits ? 1 : 0;
		constraint->is_local = !inherits;
		checks = lappend(checks, constraint);
	}
	return checks;
}

/*
 * Columns, defaults and constraints.  Mirrors MergeAttributes() in tablecmds.c
 * for a single parent of which the new table is a partition.
 */
static void
read_columns(LaPartitionTable *table, Relation parent)
{
	TupleDesc	columns = RelationGetDescr(parent);
	AttrMap    *map = make_attrmap(columns->natts);
	List	   *definitions = NIL;

	table->not_nulls = RelationGetNotNullConstraints(RelationGetRelid(parent),
													 true, false);
	for (int i = 0; i < columns->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(columns, i);

		if (attribute->attisdropped)
			continue;
		definitions = lappend(definitions,
							  column_of(attribute,
										has_not_null(table->not_nulls, i + 1),
										table->inherits));
		map->attnums[i] = list_length(definitions);
	}
	table->columns = BuildDescForRelation(definitions);
	table->stored = list_concat(read_defaults(parent, map),
								read_checks(parent, map, table->inherits));
	foreach_ptr(CookedConstraint, constraint, table->not_nulls)
		constraint->attnum = map->attnums[constraint->attnum - 1];
	if (!table->inherits)
	{
		table->not_nulls = NIL;
		table->own_not_nulls = RelationGetNotNullConstraints(RelationGetRelid(parent),
															 false, false);
	}
}

/*
 * Checks what does not depend on the partition, as core does for each, and
 * reads from the parent what partitions have of it.
 */
LaPartitionTable *
la_partition_table_read(const LaPartitionRequest *request, Relation parent,
						bool inherits)
{
	LaPartitionTable *table = palloc0_object(LaPartitionTable);
	char		persistence = parent->rd_rel->relpersistence;

	table->inherits = inherits;
	table->namespace = choose_namespace(parent);
	table->persistence = persistence;
	table->tablespace = choose_tablespace(request, parent);
	table->owner = GetUserId();
	table->access_method = parent->rd_rel->relam;
	if (!OidIsValid(table->access_method))
		table->access_method = get_table_am_oid(default_table_access_method,
												false);
	table->options = la_partition_statement_storage(request, "partition",
													&table->toast_options);
	read_columns(table, parent);
	return table;
}

/*
 * Creates a table, which is locked and open.
 */
Relation
la_partition_table_begin(const LaPartitionTable *table, const char *name)
{
	Oid			created;

	created = heap_create_with_catalog(name, table->namespace,
									   table->tablespace, InvalidOid,
									   InvalidOid, InvalidOid, table->owner,
									   table->access_method,
									   table->columns, table->stored,
									   RELKIND_RELATION, table->persistence,
									   false, false, ONCOMMIT_NOOP,
									   table->options, true,
									   allowSystemTableMods, false,
									   InvalidOid, NULL);
	CommandCounterIncrement();
	return relation_open(created, AccessExclusiveLock);
}

/*
 * Core changes the list and what is in it.
 */
static List *
copy_constraints(List *constraints)
{
	List	   *copies = NIL;

	foreach_ptr(CookedConstraint, constraint, constraints)
	{
		CookedConstraint *copy = palloc_object(CookedConstraint);

		*copy = *constraint;
		copies = lappend(copies, copy);
	}
	return copies;
}

/*
 * What core does after everything else, and closes the table.
 */
void
la_partition_table_end(const LaPartitionTable *table, Relation created)
{
	Oid			number = RelationGetRelid(created);

	/* Columns of which it tells us are marked already. */
	(void) AddRelationNotNullConstraints(created,
										 copyObject(table->own_not_nulls),
										 copy_constraints(table->not_nulls),
										 NIL);
	relation_close(created, NoLock);
	CommandCounterIncrement();
	NewRelationCreateToastTable(number, table->toast_options);
	CommandCounterIncrement();
}

#endif							/* LA_PARTITIONS_PORTED */
