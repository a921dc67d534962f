/*-------------------------------------------------------------------------
 *
 * la_insert_classes.c
 *	  what core calls for operator classes of users
 *
 * To sort, join, group and hash, to compare rows and arrays, to find partitions and to look into
 * indexes core calls functions that no query names: those of an operator class, and of other
 * operators in its family.  Which class that is the planner decides.  It need not be the default of
 * the type, and an operator can be in several families, one of core's in a user's, too.  So all
 * that users have added to families counts.  Relies on PrepareSortSupportFromOrderingOp() in
 * sortsupport.c and get_op_hash_functions() in lsyscache.c, which look nowhere else.
 *
 * What is for a type of a user is looked at when that type comes up; what is for types of core,
 * always.  What core has added is harmless: it is for types of core, and calls core's own.
 *
 * A function that takes what SQL has not (internal) is written in C.  Being volatile gives it no
 * snapshot; access methods other than btree and hash have most of theirs declared so by
 * negligence.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_opclass_d.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type_d.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "bulk_insert/judge/la_insert_classes.h"
#include "bulk_insert/judge/la_insert_function.h"

/*
 * Functions of members of families.
 */
typedef struct Members
{
	const List *types;			/* for one of these; NIL: for core's only */
	List	   *compared;		/* for values, whatever the plan is */
	List	   *indexed;		/* to look into an index */
} Members;

static bool
is_wanted(const Members *members, Oid left, Oid right)
{
	if (members->types == NIL)
		return left < FirstUnpinnedObjectId && right < FirstUnpinnedObjectId;
	return list_member_oid(members->types, left) || list_member_oid(members->types, right);
}

/*
 * Does core call what operators of this access method are executed by, other than those that a query
 * names?
 */
static bool
calls_operators(Oid method)
{
	return method == BTREE_AM_OID || method == HASH_AM_OID || method == BRIN_AM_OID;
}

/*
 * Of a family that others have just dropped it is InvalidOid.
 */
static Oid
method_of(Oid family)
{
	HeapTuple	tuple = SearchSysCache1(OPFAMILYOID, ObjectIdGetDatum(family));
	Oid			method;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	method = ((Form_pg_opfamily) GETSTRUCT(tuple))->opfmethod;
	ReleaseSysCache(tuple);
	return method;
}

static bool
takes_internal(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	const oidvector *types;
	bool		found = false;

	if (!HeapTupleIsValid(tuple))
		return false;
	types = &((Form_pg_proc) GETSTRUCT(tuple))->proargtypes;
	for (int i = 0; i < types->dim1; i++)
		found |= types->values[i] == INTERNALOID;
	ReleaseSysCache(tuple);
	return found;
}

/*
 * What users have added has OIDs of theirs, whatever family it is in.
 */
static SysScanDesc
begin_scan(Relation catalog, Oid index, AttrNumber oid)
{
	ScanKeyData key;

	ScanKeyInit(&key, oid, BTGreaterEqualStrategyNumber, F_OIDGE,
				ObjectIdGetDatum(FirstUnpinnedObjectId));
	return systable_beginscan(catalog, index, true, NULL, 1, &key);
}

static void
add_operators(Members *members)
{
	Relation	catalog = table_open(AccessMethodOperatorRelationId, AccessShareLock);
	SysScanDesc scan = begin_scan(catalog, AccessMethodOperatorOidIndexId, Anum_pg_amop_oid);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_amop member = (Form_pg_amop) GETSTRUCT(tuple);

		if (is_wanted(members, member->amoplefttype, member->amoprighttype) &&
			calls_operators(member->amopmethod))
			members->compared = lappend_oid(members->compared, get_opcode(member->amopopr));
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

static void
add_functions(Members *members)
{
	Relation	catalog = table_open(AccessMethodProcedureRelationId, AccessShareLock);
	SysScanDesc scan = begin_scan(catalog, AccessMethodProcedureOidIndexId, Anum_pg_amproc_oid);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_amproc member = (Form_pg_amproc) GETSTRUCT(tuple);
		Oid			method;

		if (!is_wanted(members, member->amproclefttype, member->amprocrighttype))
			continue;
		method = method_of(member->amprocfamily);
		if (method == BTREE_AM_OID || method == HASH_AM_OID)
			members->compared = lappend_oid(members->compared, member->amproc);
		else if (!takes_internal(member->amproc))
			members->indexed = lappend_oid(members->indexed, member->amproc);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

static bool
see_rows(const List *functions, LaInsertSearch *search)
{
	foreach_oid(function, functions)
	{
		if (la_insert_search_function(search, function))
			return true;
	}
	return false;
}

/*
 * What members of families call that are for one of these types, or with NIL for types of core only.
 * Whether functions of indexes are a user's does not matter as long as they see no rows.
 */
LaInsertCalls
la_insert_classes(const List *types)
{
	Members		members = {.types = types};
	LaInsertSearch compared = {.late = true};
	LaInsertSearch indexed = {.late = true};

	add_operators(&members);
	add_functions(&members);
	if (see_rows(members.compared, &compared) || see_rows(members.indexed, &indexed))
		return LA_CALLS_SEEING;
	return la_insert_search_result(&compared);
}

/*
 * LaInsertLook.
 */
static int
look_at_core_types(void *arg)
{
	return la_insert_classes(NIL);
}

/*
 * What operator classes of users have called for types of core.
 */
LaInsertCalls
la_insert_classes_of_core_types(void)
{
	return la_insert_known(LA_INSERT_CLASSES, OperatorClassRelationId, look_at_core_types, NULL);
}
