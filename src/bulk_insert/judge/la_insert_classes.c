/*-------------------------------------------------------------------------
 *
 * la_insert_classes.c
 *	  what core calls for operator classes of users
 *
 * To sort, join, group and hash, to compare rows and arrays, to find partitions and to look into
 * indexes core calls functions that no query names: those of an operator class, and of other
 * operators in its family.  Which class that is the planner decides.  It need not be the default of
 * the type, and an operator can be in several families, one of core's in a user's, too.  Nor need
 * the type come up in the query: a skip scan compares columns that the query does not name, values
 * are taken for those of another type, and an index can store keys of a third.  So all that users
 * have added to families counts, of any type.  Relies on PrepareSortSupportFromOrderingOp() in
 * sortsupport.c and get_op_hash_functions() in lsyscache.c, which look nowhere else.  What core
 * has added calls core's own.
 *
 * Functions that are not volatile are taken by their word, unless the query or an index of the
 * table names them (la_insert_function.c): immutable ones, and stable ones in C, which extensions
 * have in classes of theirs.  Of these, only those of pg_tle are known to call what a user has
 * written.  Nor is a function asked that does nothing but serve an access method
 * (la_insert_function.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_language_d.h"
#include "catalog/pg_opclass_d.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_proc.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "bulk_insert/judge/la_insert_classes.h"
#include "bulk_insert/judge/la_insert_function.h"
#include "bulk_insert/judge/la_insert_known.h"

/*
 * What makes an access method what it is, whatever its name.  InvalidOid of one that others have
 * just dropped.
 */
static Oid
handler_of(Oid method)
{
	HeapTuple	tuple = SearchSysCache1(AMOID, ObjectIdGetDatum(method));
	Oid			handler;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	handler = ((Form_pg_am) GETSTRUCT(tuple))->amhandler;
	ReleaseSysCache(tuple);
	return handler;
}

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
is_stable_in_c(Oid function)
{
	return la_insert_language(function, PROVOLATILE_STABLE) == ClanguageId;
}

/*
 * Of these three access methods core calls no operator that the query does not name.
 */
static bool
operator_sees_rows(HeapTuple tuple)
{
	Form_pg_amop member = (Form_pg_amop) GETSTRUCT(tuple);
	Oid			function = get_opcode(member->amopopr);
	Oid			handler;

	if (!la_insert_function_is_volatile(function) || is_stable_in_c(function))
		return false;
	handler = handler_of(member->amopmethod);
	return handler != F_GINHANDLER && handler != F_GISTHANDLER && handler != F_SPGHANDLER;
}

static bool
function_sees_rows(HeapTuple tuple)
{
	Form_pg_amproc member = (Form_pg_amproc) GETSTRUCT(tuple);

	if (!la_insert_function_is_volatile(member->amproc) || is_stable_in_c(member->amproc))
		return false;
	return !la_insert_function_serves(member->amproc, handler_of(method_of(member->amprocfamily)));
}

/*
 * What users have added to a catalog has OIDs of theirs, whatever family it is in.
 */
static bool
any_sees_rows(Oid catalog, Oid index, AttrNumber oid, bool (*sees_rows) (HeapTuple member))
{
	Relation	relation = table_open(catalog, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	ScanKeyInit(&key, oid, BTGreaterEqualStrategyNumber, F_OIDGE,
				ObjectIdGetDatum(FirstUnpinnedObjectId));
	scan = systable_beginscan(relation, index, true, NULL, 1, &key);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
		found = sees_rows(tuple);
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return found;
}

/*
 * LaInsertLook.
 */
static int
look_at_classes(void *arg)
{
	return any_sees_rows(AccessMethodOperatorRelationId, AccessMethodOperatorOidIndexId,
						 Anum_pg_amop_oid, operator_sees_rows) ||
		any_sees_rows(AccessMethodProcedureRelationId, AccessMethodProcedureOidIndexId,
					  Anum_pg_amproc_oid, function_sees_rows);
}

/*
 * Can a function see the rows so far that core may call for an operator class of a user?
 */
bool
la_insert_classes_see_rows(void)
{
	return la_insert_known(LA_INSERT_CLASSES, OperatorClassRelationId, look_at_classes, NULL);
}
