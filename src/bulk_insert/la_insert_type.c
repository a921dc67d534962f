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
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "parser/parse_coerce.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "bulk_insert/la_insert_function.h"
#include "bulk_insert/la_insert_type.h"

static bool search_functions(Oid type);
static bool search_comparison(Oid type);
static bool search_json(Oid type, Oid json);
static bool search_parts(LaInsertTypes *types, Oid type,
						 const FormData_pg_type *form);
static void note_checks(LaInsertTypes *types, Oid domain);
static bool search_row(LaInsertTypes *types, Oid type);
static bool search_range(LaInsertTypes *types, Oid type);

/*
 * Of a type that somebody made.  One that is not there is in doubt.  One that has been
 * looked at is not looked at again: had it called something volatile, the search would
 * be over.
 */
bool
la_insert_search_made_type(LaInsertTypes *types, Oid type)
{
	HeapTuple	tuple;
	FormData_pg_type form;

	if (list_member_oid(types->seen, type))
		return false;
	check_stack_depth();
	types->seen = lappend_oid(types->seen, type);

	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	if (!HeapTupleIsValid(tuple))
		return true;
	memcpy(&form, GETSTRUCT(tuple), sizeof(form));
	ReleaseSysCache(tuple);
	return la_insert_sees_rows(form.typinput) ||
		la_insert_sees_rows(form.typoutput) ||
		la_insert_sees_rows(form.typreceive) ||
		la_insert_sees_rows(form.typsend) ||
		search_functions(type) ||
		search_parts(types, type, &form);
}

/*
 * Functions that belong to the type itself by operator classes and casts.
 */
static bool
search_functions(Oid type)
{
	return search_comparison(type) || search_json(type, JSONOID) ||
		search_json(type, JSONBOID);
}

/*
 * How core compares values when it is not told an operator.
 */
static bool
search_comparison(Oid type)
{
	const TypeCacheEntry *entry =
		lookup_type_cache(type, TYPECACHE_EQ_OPR | TYPECACHE_LT_OPR |
						  TYPECACHE_GT_OPR | TYPECACHE_CMP_PROC |
						  TYPECACHE_HASH_PROC | TYPECACHE_HASH_EXTENDED_PROC);
	const Oid	operators[] = {entry->eq_opr, entry->lt_opr, entry->gt_opr};

	for (int i = 0; i < lengthof(operators); i++)
	{
		if (OidIsValid(operators[i]) &&
			la_insert_sees_rows(get_opcode(operators[i])))
			return true;
	}
	return la_insert_sees_rows(entry->cmp_proc) ||
		la_insert_sees_rows(entry->hash_proc) ||
		la_insert_sees_rows(entry->hash_extended_proc);
}

/*
 * A cast that functions which make JSON of values look for.  Relies on
 * json_categorize_type() in jsonfuncs.c, which looks for no other.
 */
static bool
search_json(Oid type, Oid json)
{
	Oid			function = InvalidOid;

	return find_coercion_pathway(json, type, COERCION_EXPLICIT, &function) ==
		COERCION_PATH_FUNC && la_insert_sees_rows(function);
}

/*
 * What the type is made of.
 */
static bool
search_parts(LaInsertTypes *types, Oid type, const FormData_pg_type *form)
{
	switch (form->typtype)
	{
		case TYPTYPE_BASE:
			return la_insert_search_type(types, form->typelem);
		case TYPTYPE_DOMAIN:
			note_checks(types, type);
			return la_insert_search_type(types, form->typbasetype);
		case TYPTYPE_COMPOSITE:
			return search_row(types, type);
		case TYPTYPE_RANGE:
			return search_range(types, type);
		case TYPTYPE_MULTIRANGE:
			return la_insert_search_type(types, get_multirange_range(type));
		default:
			return false;
	}
}

/*
 * The constraints of a domain, and of the domains that it is over.  They belong to
 * the type cache, which keeps them until the current memory context is reset.
 */
static void
note_checks(LaInsertTypes *types, Oid domain)
{
	DomainConstraintRef *reference = palloc(sizeof(DomainConstraintRef));
	ListCell   *lc;

	InitDomainConstraintRef(domain, reference, CurrentMemoryContext, false);
	foreach(lc, reference->constraints)
	{
		const DomainConstraintState *constraint = lfirst(lc);

		if (constraint->constrainttype == DOM_CONSTRAINT_CHECK)
			types->checks = lappend(types->checks, constraint->check_expr);
	}
}

/*
 * The columns of a row type.
 */
static bool
search_row(LaInsertTypes *types, Oid type)
{
	TupleDesc	descriptor = lookup_rowtype_tupdesc_copy(type, -1);
	bool		found = false;

	for (int i = 0; i < descriptor->natts && !found; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, i);

		found = !attribute->attisdropped &&
			la_insert_search_type(types, attribute->atttypid);
	}
	FreeTupleDesc(descriptor);
	return found;
}

/*
 * The bounds of a range, and how they are compared, which the range may say itself.
 * Its other functions must be immutable.
 */
static bool
search_range(LaInsertTypes *types, Oid type)
{
	const TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_RANGE_INFO);

	return la_insert_sees_rows(entry->rng_cmp_proc_finfo.fn_oid) ||
		la_insert_search_type(types, entry->rngelemtype->type_id);
}
