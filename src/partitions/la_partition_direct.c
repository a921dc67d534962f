/*-------------------------------------------------------------------------
 *
 * la_partition_direct.c
 *	  partitions created without a statement
 *
 * Core's functions are called in the order in which CREATE TABLE ... PARTITION
 * OF calls them, with the same arguments.  Mirrors DefineRelation() in
 * tablecmds.c and ProcessUtilitySlow() in utility.c.  What they are told of
 * columns, defaults and constraints is the same for all partitions and made once.  Left out is
 * what the parent's other partitions decide, which was checked before
 * (la_partition_plan.c), and telling each time that the parent has changed,
 * which would have its descriptor built anew each time: that is done at the
 * end.
 *
 * A partition that is attached under a ShareUpdateExclusiveLock is what ALTER
 * TABLE ... ATTACH PARTITION makes, too: statements that run see it or not,
 * and the next ones do.  Until the end this session does not see it, either.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/attmap.h"
#include "access/genam.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "access/toast_compression.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/heap.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_tablespace.h"
#include "catalog/toasting.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "commands/tablespace.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_utilcmd.h"
#include "rewrite/rewriteManip.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "la_compat.h"
#include "partitions/la_partition_direct.h"

/* What all partitions have in common. */
struct LaPartitionDirect
{
	Oid			parent;
	Oid			namespace;
	Oid			tablespace;
	Oid			access_method;
	Oid			owner;
	char		persistence;
	TupleDesc	columns;
	List	   *stored;			/* CookedConstraints: defaults, checks */
	List	   *not_nulls;		/* CookedConstraints */
	List	   *indexes;		/* of the parent */
	Datum		options;
	Datum		toast_options;
};

#ifdef LA_PARTITIONS_PORTED

static Oid	choose_namespace(Relation parent);
static Oid	choose_tablespace(const LaPartitionRequest *request,
							  Relation parent);
static void read_options(LaPartitionDirect *direct,
						 const LaPartitionRequest *request);
static void read_columns(LaPartitionDirect *direct, Relation parent);
static ColumnDef *column_of(Form_pg_attribute attribute, bool not_null);
static bool has_not_null(List *not_nulls, AttrNumber attribute);
static List *read_defaults(Relation parent, const AttrMap *map);
static List *read_checks(Relation parent, const AttrMap *map);
static CookedConstraint *new_constraint(ConstrType type);
static Node *translate_expression(Node *expression, const AttrMap *map);
static void store_bound(Oid partition, PartitionBoundSpec *bound);
static void store_inheritance(Oid partition, Oid parent);
static void clone_indexes(const LaPartitionDirect *direct, Relation partition);
static List *copy_constraints(List *constraints);

/*
 * Checks what does not depend on the partition, as core does for each, and
 * reads from the parent what partitions have of it.
 */
LaPartitionDirect *
la_partition_direct_begin(const LaPartitionRequest *request, Relation parent)
{
	LaPartitionDirect *direct = palloc0_object(LaPartitionDirect);
	char		persistence = parent->rd_rel->relpersistence;

	direct->parent = RelationGetRelid(parent);
	direct->namespace = choose_namespace(parent);
	direct->persistence = persistence;
	direct->tablespace = choose_tablespace(request, parent);
	direct->owner = GetUserId();
	direct->access_method = parent->rd_rel->relam;
	if (!OidIsValid(direct->access_method))
		direct->access_method = get_table_am_oid(default_table_access_method,
												 false);
	read_options(direct, request);
	read_columns(direct, parent);
	direct->indexes = RelationGetIndexList(parent);
	return direct;
}

/*
 * Creates one partition, in the current memory context, of which nothing is
 * needed afterwards.
 */
void
la_partition_direct_create(const LaPartitionDirect *direct,
						   const LaPlannedPartition *planned)
{
	Oid			partition;
	Relation	relation;

	partition = heap_create_with_catalog(planned->name, direct->namespace,
										 direct->tablespace, InvalidOid,
										 InvalidOid, InvalidOid, direct->owner,
										 direct->access_method,
										 direct->columns, direct->stored,
										 RELKIND_RELATION, direct->persistence,
										 false, false, ONCOMMIT_NOOP,
										 direct->options, true,
										 allowSystemTableMods, false,
										 InvalidOid, NULL);
	CommandCounterIncrement();
	relation = relation_open(partition, AccessExclusiveLock);
	store_bound(partition, planned->bound);
	store_inheritance(partition, direct->parent);
	CommandCounterIncrement();
	clone_indexes(direct, relation);
	/* Columns of which it tells us are marked already. */
	(void) AddRelationNotNullConstraints(relation, NIL,
										 copy_constraints(direct->not_nulls),
										 NIL);
	relation_close(relation, NoLock);
	CommandCounterIncrement();
	NewRelationCreateToastTable(partition, direct->toast_options);
	CommandCounterIncrement();
}

/*
 * Makes the partitions known: to this session by the command counter, to the
 * others when the transaction commits.  Relies on SetRelationHasSubclass() in
 * tablecmds.c, which has the parent's relcache entry renewed in any case.
 */
void
la_partition_direct_end(const LaPartitionDirect *direct)
{
	SetRelationHasSubclass(direct->parent, true);
	CommandCounterIncrement();
}

/*
 * That of the parent, which the user has to have the rights to use and to
 * create tables in (the statement looks the parent up by its name).  Partitions of a temporary table are temporary, too.
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
 * The one that was asked for, or the parent's, or the session's.  Mirrors
 * DefineRelation() in tablecmds.c.
 */
static Oid
choose_tablespace(const LaPartitionRequest *request, Relation parent)
{
	Oid			tablespace = parent->rd_rel->reltablespace;
	AclResult	result;

	if (request->tablespace != NULL)
		tablespace = get_tablespace_oid(request->tablespace, false);
	if (!OidIsValid(tablespace))
		tablespace = GetDefaultTablespace(parent->rd_rel->relpersistence, false);
	if (OidIsValid(tablespace) && tablespace != MyDatabaseTableSpace)
	{
		result = object_aclcheck(TableSpaceRelationId, tablespace, GetUserId(),
								 ACL_CREATE);
		if (result != ACLCHECK_OK)
			aclcheck_error(result, OBJECT_TABLESPACE,
						   get_tablespace_name(tablespace));
	}
	if (tablespace == GLOBALTABLESPACE_OID)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("only shared relations can be placed in pg_global tablespace")));
	return tablespace;
}

/*
 * Storage options of the table and of its TOAST table.
 */
static void
read_options(LaPartitionDirect *direct, const LaPartitionRequest *request)
{
	const char *const namespaces[] = HEAP_RELOPT_NAMESPACES;
	char	   *text = la_partition_statement_text(request, "partition", 0);
	List	   *options = la_partition_statement_parse(request, text)->options;

	direct->options = transformRelOptions((Datum) 0, options, NULL, namespaces,
										  true, false);
	(void) heap_reloptions(RELKIND_RELATION, direct->options, true);
	direct->toast_options = transformRelOptions((Datum) 0, options, "toast",
												namespaces, true, false);
	(void) heap_reloptions(RELKIND_TOASTVALUE, direct->toast_options, true);
}

/*
 * Columns, defaults and constraints.  Mirrors MergeAttributes() in tablecmds.c
 * for a single parent of which the new table is a partition.
 */
static void
read_columns(LaPartitionDirect *direct, Relation parent)
{
	TupleDesc	columns = RelationGetDescr(parent);
	AttrMap    *map = make_attrmap(columns->natts);
	List	   *definitions = NIL;

	direct->not_nulls = RelationGetNotNullConstraints(direct->parent, true,
													  false);
	for (int i = 0; i < columns->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(columns, i);

		if (attribute->attisdropped)
			continue;
		definitions = lappend(definitions,
							  column_of(attribute,
										has_not_null(direct->not_nulls, i + 1)));
		map->attnums[i] = list_length(definitions);
	}
	direct->columns = BuildDescForRelation(definitions);
	direct->stored = list_concat(read_defaults(parent, map),
								 read_checks(parent, map));
	foreach_ptr(CookedConstraint, constraint, direct->not_nulls)
		constraint->attnum = map->attnums[constraint->attnum - 1];
}

static ColumnDef *
column_of(Form_pg_attribute attribute, bool not_null)
{
	ColumnDef  *column = makeColumnDef(NameStr(attribute->attname),
									   attribute->atttypid,
									   attribute->atttypmod,
									   attribute->attcollation);

	column->storage = attribute->attstorage;
	column->generated = attribute->attgenerated;
	if (CompressionMethodIsValid(attribute->attcompression))
		column->compression = pstrdup(GetCompressionMethodName(attribute->attcompression));
	column->identity = attribute->attidentity;
	column->inhcount = 1;
	column->is_local = false;
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
read_checks(Relation parent, const AttrMap *map)
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
		constraint->inhcount = 1;
		checks = lappend(checks, constraint);
	}
	return checks;
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
 * Mirrors StorePartitionBound() in heap.c, but for what it tells about the
 * parent.
 */
static void
store_bound(Oid partition, PartitionBoundSpec *bound)
{
	Relation	classes = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	old = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(partition));
	HeapTuple	new;
	Datum		values[Natts_pg_class] = {0};
	bool		nulls[Natts_pg_class] = {0};
	bool		replaced[Natts_pg_class] = {0};

	if (!HeapTupleIsValid(old))
		elog(ERROR, "cache lookup failed for relation %u", partition);
	values[Anum_pg_class_relpartbound - 1] =
		CStringGetTextDatum(nodeToString(bound));
	replaced[Anum_pg_class_relpartbound - 1] = true;
	new = heap_modify_tuple(old, RelationGetDescr(classes), values, nulls,
							replaced);
	((Form_pg_class) GETSTRUCT(new))->relispartition = true;
	CatalogTupleUpdate(classes, &new->t_self, new);
	table_close(classes, RowExclusiveLock);
}

/*
 * Mirrors StoreCatalogInheritance1() in tablecmds.c, but for what it tells
 * about the parent.
 */
static void
store_inheritance(Oid partition, Oid parent)
{
	ObjectAddress child;
	ObjectAddress referenced;

	StoreSingleInheritance(partition, parent, 1);
	ObjectAddressSet(child, RelationRelationId, partition);
	ObjectAddressSet(referenced, RelationRelationId, parent);
	recordDependencyOn(&child, &referenced, DEPENDENCY_AUTO);
	InvokeObjectPostAlterHookArg(InheritsRelationId, partition, 0, parent,
								 false);
}

/*
 * An index for each of the parent's.  Mirrors DefineRelation() in tablecmds.c.
 */
static void
clone_indexes(const LaPartitionDirect *direct, Relation partition)
{
	Relation	parent = table_open(direct->parent, NoLock);

	foreach_oid(cloned, direct->indexes)
	{
		Relation	index = index_open(cloned, AccessShareLock);
		AttrMap    *map = build_attrmap_by_name(RelationGetDescr(partition),
												RelationGetDescr(parent), false);
		Oid			constraint;
		IndexStmt  *statement = generateClonedIndexStmt(NULL, index, map,
														&constraint);

		DefineIndex(RelationGetRelid(partition), statement, InvalidOid, cloned,
					constraint, -1, false, false, false, false, false);
		index_close(index, AccessShareLock);
	}
	table_close(parent, NoLock);
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

#else							/* LA_PARTITIONS_PORTED */

/*
 * Never called: la_partition_way() says why.
 */
LaPartitionDirect *
la_partition_direct_begin(const LaPartitionRequest *request, Relation parent)
{
	elog(ERROR, "partitions are not created directly by this server version");
}

void
la_partition_direct_create(const LaPartitionDirect *direct,
						   const LaPlannedPartition *planned)
{
}

void
la_partition_direct_end(const LaPartitionDirect *direct)
{
}

#endif							/* LA_PARTITIONS_PORTED */
