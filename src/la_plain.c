/*-------------------------------------------------------------------------
 *
 * la_plain.c
 *	  what is sure to call no function of a user
 *
 * Rooms that evaluate something at another time than core, or rely on nobody else
 * coming between, ask here.  What core cannot be without (below FirstUnpinnedObjectId)
 * is nobody else's, and cannot be dropped.  What initdb makes later, up to
 * FirstNormalObjectId, can be dropped and made anew: it counts as a user's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_cast.h"
#include "catalog/pg_type.h"
#include "nodes/nodes.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "la_plain.h"

/*
 * Does a node of an expression call nothing, and throw nothing, beside what those
 * below it do?  Of a kind that is not listed, as of one that a new major release
 * brings, that is not known.
 */
bool
la_plain_node(const Node *node)
{
	switch (nodeTag(node))
	{
		case T_List:
		case T_TargetEntry:
		case T_Var:
		case T_Const:
		case T_Param:
		case T_RelabelType:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CaseExpr:
		case T_CaseTestExpr:
		case T_CoalesceExpr:
			return true;
		default:
			return false;
	}
}

/*
 * The function of a cast, InvalidOid where none is called.
 */
Oid
la_plain_cast(Oid from, Oid to)
{
	HeapTuple	tuple = SearchSysCache2(CASTSOURCETARGET, ObjectIdGetDatum(from),
										ObjectIdGetDatum(to));
	Oid			function;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	function = ((Form_pg_cast) GETSTRUCT(tuple))->castfunc;
	ReleaseSysCache(tuple);
	return function;
}

/*
 * Is there a cast by a function that core's own find by the type of a value, in JSON or in text?
 */
static bool
has_cast(Oid type)
{
	return OidIsValid(la_plain_cast(type, JSONOID)) ||
		OidIsValid(la_plain_cast(type, TEXTOID));
}

/*
 * Is it sure that all functions that core calls for values of a type are its own?  Not
 * for a domain, and whatever has one in it.  Of rows and anyarray it is not said what
 * they have in them.  A user's operator class may be the default of an enum, or of a
 * type that has none of core's; and an enum may be cast by a user's function.
 */
bool
la_plain_type(Oid type)
{
	Oid			element = get_element_type(type);
	const TypeCacheEntry *entry;

	if (type >= FirstGenbkiObjectId && has_cast(type))
		return false;
	if (OidIsValid(element))
		return la_plain_type(element);
	if (type >= FirstGenbkiObjectId ? get_typtype(type) != TYPTYPE_ENUM :
		type == RECORDOID || type == ANYARRAYOID || type == AttributeRelation_Rowtype_Id)
		return false;
	entry = lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY | TYPECACHE_HASH_OPFAMILY);
	return entry->btree_opf < FirstUnpinnedObjectId &&
		entry->hash_opf < FirstUnpinnedObjectId;
}

bool
la_plain_types(const List *types)
{
	foreach_oid(type, types)
	{
		if (!la_plain_type(type))
			return false;
	}
	return true;
}

/*
 * Does core compare values of this type by itself, and throw nothing?  Narrower than
 * la_plain_type(): of arrays, rows and ranges it looks up functions of their parts when
 * the first values are compared.
 */
bool
la_plain_comparison(Oid type)
{
	return type < FirstUnpinnedObjectId && get_typtype(type) == TYPTYPE_BASE &&
		!OidIsValid(get_element_type(type));
}

/*
 * check_functions_in_node callback: does core's own function call what a value names, a
 * type's input function or the functions of a view?  No look at the expression can tell.
 */
bool
la_plain_calls_by_name(Oid function, void *context)
{
	switch (function)
	{
		case F_PG_INPUT_IS_VALID:
		case F_PG_INPUT_ERROR_INFO:
		case F_ARRAY_IN:
		case F_DOMAIN_IN:
		case F_MULTIRANGE_IN:
		case F_RANGE_IN:
		case F_RECORD_IN:
		case F_TABLE_TO_XML:
		case F_TABLE_TO_XML_AND_XMLSCHEMA:
		case F_SCHEMA_TO_XML:
		case F_SCHEMA_TO_XML_AND_XMLSCHEMA:
		case F_DATABASE_TO_XML:
		case F_DATABASE_TO_XML_AND_XMLSCHEMA:
			return true;
		default:
			return false;
	}
}
