/*-------------------------------------------------------------------------
 *
 * la_insert_type.c
 *	  which functions are called for values of a type, out of a query's sight
 *
 * A cast from text to an array, a list of column definitions, a function that makes a
 * record of JSON: they make values of domains, and have the CHECK constraints of these
 * evaluated, though nowhere in the query is a cast to a domain.  Comparisons of arrays,
 * ranges and rows, output functions and functions that make JSON call what belongs to
 * the type of a part.  So all of that is looked at, for a type and for what it is made
 * of.
 *
 * What a domain with a CHECK calls is not looked at: such a type is in doubt.
 *
 * Perhaps nobody evaluates any of it, or the user may not: so it is only read, from the
 * catalogs.  The type cache would plan the constraints of domains, which calls functions, lock the
 * tables of row types, and load the libraries of functions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/hash.h"
#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/table.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_cast.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_range.h"
#include "catalog/pg_type.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "bulk_insert/judge/la_insert_change.h"
#include "bulk_insert/judge/la_insert_function.h"
#include "bulk_insert/judge/la_insert_type.h"

static bool search_kind(LaInsertSearch *search, Form_pg_type form);
static bool search_comparison(LaInsertSearch *search, Oid type);
static bool search_operator_class(LaInsertSearch *search, Oid family, Oid type,
								  int strategies, int functions);
static bool search_json(LaInsertSearch *search, Oid type);
static bool has_check(Oid domain);
static bool search_row(LaInsertSearch *search, Oid table);
static bool search_range(LaInsertSearch *search, Oid type);

/*
 * Notes a type that somebody made.
 */
void
la_insert_note_made_type(LaInsertSearch *search, Oid type)
{
	uint64	   *seen = &search->types_seen[type / 64 % lengthof(search->types_seen)];
	uint64		bit = UINT64CONST(1) << type % 64;

	if (search->era == 0)
		search->era = la_insert_era();
	if ((*seen & bit) != 0 && list_member_oid(search->types, type))
		return;
	*seen |= bit;
	search->types = lappend_oid(search->types, type);
}

/*
 * Is a type that was made with the first catalogs the row type of one, or an array of it?
 */
bool
la_insert_is_of_catalog_rows(Oid type)
{
	return type_is_rowtype(type) || type_is_rowtype(get_element_type(type));
}

/*
 * Can a function see the rows so far that core may call for a value of this type?  Types
 * that it is made of are only noted.  One that is not there, or not defined yet, is in doubt.
 */
bool
la_insert_search_type(LaInsertSearch *search, Oid type)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	FormData_pg_type form;

	if (!HeapTupleIsValid(tuple))
		return true;
	memcpy(&form, GETSTRUCT(tuple), sizeof(form));
	ReleaseSysCache(tuple);
	return !form.typisdefined ||
		la_insert_search_io_function(search, form.typinput) ||
		la_insert_search_io_function(search, form.typoutput) ||
		la_insert_search_io_function(search, form.typreceive) ||
		la_insert_search_io_function(search, form.typsend) ||
		search_kind(search, &form);
}

/*
 * A type that the one that is looked at is made of is looked at by itself.
 */
static bool
search_part(LaInsertSearch *search, Oid type)
{
	la_insert_note_type(search, type);
	return la_insert_type_says_nothing(type);
}

/*
 * What belongs to the type by operator classes and casts, and what it is made of.
 */
static bool
search_kind(LaInsertSearch *search, Form_pg_type form)
{
	switch (form->typtype)
	{
		case TYPTYPE_DOMAIN:
			return has_check(form->oid) ||
				search_part(search, form->typbasetype);
		case TYPTYPE_COMPOSITE:
			return search_comparison(search, form->oid) ||
				search_row(search, form->typrelid);
		case TYPTYPE_RANGE:
			if (search_range(search, form->oid))
				return true;
			break;
		case TYPTYPE_MULTIRANGE:
			la_insert_note_type(search, get_multirange_range(form->oid));
			break;
		default:
			if (search_part(search, form->typelem))
				return true;
	}
	return search_comparison(search, form->oid) ||
		(!IsTrueArrayType(form) && search_json(search, form->oid));
}

/*
 * How core compares values when it is not told an operator.  Of the type cache only what
 * it finds without looking at the parts of the type: relies on lookup_type_cache() in
 * typcache.c.  What core's own operator classes call for types of core is core's own.
 *
 * Where a btree's class lacks equality, core would find that of a hash class only if somebody has
 * had it looked up before.  We must not: such a type is in doubt.
 */
static bool
search_comparison(LaInsertSearch *search, Oid type)
{
	const TypeCacheEntry *entry =
		lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY);

	if (OidIsValid(entry->btree_opf) &&
		!OidIsValid(get_opfamily_member(entry->btree_opf, entry->btree_opintype,
										entry->btree_opintype,
										BTEqualStrategyNumber)))
		return true;
	entry = lookup_type_cache(type, TYPECACHE_HASH_OPFAMILY);
	return search_operator_class(search, entry->btree_opf, entry->btree_opintype,
								 BTMaxStrategyNumber, BTNProcs) ||
		search_operator_class(search, entry->hash_opf, entry->hash_opintype,
							  HTMaxStrategyNumber, HASHNProcs);
}

static bool
search_operator_class(LaInsertSearch *search, Oid family, Oid type,
					  int strategies, int functions)
{
	if (family < FirstUnpinnedObjectId && type < FirstUnpinnedObjectId)
		return false;
	for (int i = 1; i <= strategies; i++)
	{
		Oid			operator = get_opfamily_member(family, type, type, i);

		if (OidIsValid(operator) &&
			la_insert_search_function(search, get_opcode(operator)))
			return true;
	}
	for (int i = 1; i <= functions; i++)
	{
		if (la_insert_search_function(search,
									  get_opfamily_proc(family, type, type, i)))
			return true;
	}
	return false;
}

/*
 * A cast that functions which make JSON of values look for.  Relies on
 * json_categorize_type() in jsonfuncs.c, which looks for no other, and for none of arrays
 * and rows.  Relies on find_coercion_pathway() in parse_coerce.c.
 */
static bool
search_json(LaInsertSearch *search, Oid type)
{
	HeapTuple	tuple = SearchSysCache2(CASTSOURCETARGET, ObjectIdGetDatum(type),
										ObjectIdGetDatum(JSONOID));
	Oid			function;

	if (!HeapTupleIsValid(tuple))
		return false;
	function = ((Form_pg_cast) GETSTRUCT(tuple))->castfunc;
	ReleaseSysCache(tuple);
	return la_insert_search_function(search, function);
}

/*
 * Has a domain a CHECK constraint of its own?  Those of the domains below are theirs.
 */
static bool
has_check(Oid domain)
{
	Relation	catalog = table_open(ConstraintRelationId, AccessShareLock);
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;
	bool		found = false;

	ScanKeyInit(&key, Anum_pg_constraint_contypid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(domain));
	scan = systable_beginscan(catalog, ConstraintTypidIndexId, true, NULL, 1, &key);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
		found = ((Form_pg_constraint) GETSTRUCT(tuple))->contype == CONSTRAINT_CHECK;
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

/*
 * The columns of a row type.  The table that it is of is not opened: it would be locked.
 */
static bool
search_row(LaInsertSearch *search, Oid table)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
	int			columns;
	bool		found = false;

	if (!HeapTupleIsValid(tuple))
		return true;
	search->tables = lappend_oid(search->tables, table);
	columns = ((Form_pg_class) GETSTRUCT(tuple))->relnatts;
	ReleaseSysCache(tuple);
	for (int i = 1; i <= columns && !found; i++)
	{
		Form_pg_attribute column;

		tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(table), Int16GetDatum(i));
		if (!HeapTupleIsValid(tuple))
			return true;
		column = (Form_pg_attribute) GETSTRUCT(tuple);
		found = !column->attisdropped && search_part(search, column->atttypid);
		ReleaseSysCache(tuple);
	}
	return found;
}

/*
 * The bounds of a range, how they are compared, which the range may say itself, and how
 * they are brought into one form.
 */
static bool
search_range(LaInsertSearch *search, Oid type)
{
	HeapTuple	tuple = SearchSysCache1(RANGETYPE, ObjectIdGetDatum(type));
	FormData_pg_range form;
	Oid			family;
	Oid			compared;

	if (!HeapTupleIsValid(tuple))
		return true;
	memcpy(&form, GETSTRUCT(tuple), sizeof(form));
	ReleaseSysCache(tuple);
	return search_part(search, form.rngsubtype) ||
		!get_opclass_opfamily_and_input_type(form.rngsubopc, &family, &compared) ||
		la_insert_search_function(search, form.rngcanonical) ||
		search_operator_class(search, family, compared, BTMaxStrategyNumber, BTNProcs);
}
