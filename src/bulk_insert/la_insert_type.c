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

static bool search_functions(LaInsertSearch *search, Oid type);
static bool search_comparison(LaInsertSearch *search, Oid type);
static bool search_json(LaInsertSearch *search, Oid type, Oid json);
static bool search_parts(LaInsertSearch *search, Oid type,
						 const FormData_pg_type *form);
static void note_checks(LaInsertSearch *search, Oid domain);
static bool search_row(LaInsertSearch *search, Oid type);
static bool search_range(LaInsertSearch *search, Oid type);

/*
 * Of a type that somebody made.  One that is not there is in doubt.  One that has been
 * looked at is not looked at again: had it called something volatile, the search would
 * be over.
 */
bool
la_insert_search_made_type(LaInsertSearch *search, Oid type)
{
	HeapTuple	tuple;
	FormData_pg_type form;

	if (list_member_oid(search->types, type))
		return false;
	check_stack_depth();
	search->types = lappend_oid(search->types, type);

	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	if (!HeapTupleIsValid(tuple))
		return true;
	memcpy(&form, GETSTRUCT(tuple), sizeof(form));
	ReleaseSysCache(tuple);
	return la_insert_search_function(search, form.typinput) ||
		la_insert_search_function(search, form.typoutput) ||
		la_insert_search_function(search, form.typreceive) ||
		la_insert_search_function(search, form.typsend) ||
		search_functions(search, type) ||
		search_parts(search, type, &form);
}

/*
 * Functions that belong to the type itself by operator classes and casts.
 */
static bool
search_functions(LaInsertSearch *search, Oid type)
{
	return search_comparison(search, type) || search_json(search, type, JSONOID) ||
		search_json(search, type, JSONBOID);
}

/*
 * How core compares values when it is not told an operator.
 */
static bool
search_comparison(LaInsertSearch *search, Oid type)
{
	const TypeCacheEntry *entry =
		lookup_type_cache(type, TYPECACHE_EQ_OPR | TYPECACHE_LT_OPR |
						  TYPECACHE_GT_OPR | TYPECACHE_CMP_PROC |
						  TYPECACHE_HASH_PROC | TYPECACHE_HASH_EXTENDED_PROC);
	const Oid	operators[] = {entry->eq_opr, entry->lt_opr, entry->gt_opr};

	for (int i = 0; i < lengthof(operators); i++)
	{
		if (OidIsValid(operators[i]) &&
			la_insert_search_function(search, get_opcode(operators[i])))
			return true;
	}
	return la_insert_search_function(search, entry->cmp_proc) ||
		la_insert_search_function(search, entry->hash_proc) ||
		la_insert_search_function(search, entry->hash_extended_proc);
}

/*
 * A cast that functions which make JSON of values look for.  Relies on
 * json_categorize_type() in jsonfuncs.c, which looks for no other.
 */
static bool
search_json(LaInsertSearch *search, Oid type, Oid json)
{
	Oid			function = InvalidOid;

	return find_coercion_pathway(json, type, COERCION_EXPLICIT, &function) ==
		COERCION_PATH_FUNC && la_insert_search_function(search, function);
}

/*
 * What the type is made of.
 */
static bool
search_parts(LaInsertSearch *search, Oid type, const FormData_pg_type *form)
{
	switch (form->typtype)
	{
		case TYPTYPE_BASE:
			return la_insert_search_type(search, form->typelem);
		case TYPTYPE_DOMAIN:
			note_checks(search, type);
			return la_insert_search_type(search, form->typbasetype);
		case TYPTYPE_COMPOSITE:
			return search_row(search, type);
		case TYPTYPE_RANGE:
			return search_range(search, type);
		case TYPTYPE_MULTIRANGE:
			return la_insert_search_type(search, get_multirange_range(type));
		default:
			return false;
	}
}

/*
 * The constraints of a domain, and of the domains that it is over.  They belong to
 * the type cache, which keeps them until the current memory context is reset.
 */
static void
note_checks(LaInsertSearch *search, Oid domain)
{
	DomainConstraintRef *reference = palloc(sizeof(DomainConstraintRef));
	ListCell   *lc;

	InitDomainConstraintRef(domain, reference, CurrentMemoryContext, false);
	foreach(lc, reference->constraints)
	{
		const DomainConstraintState *constraint = lfirst(lc);

		if (constraint->constrainttype == DOM_CONSTRAINT_CHECK)
			search->checks = lappend(search->checks, constraint->check_expr);
	}
}

/*
 * The columns of a row type.
 */
static bool
search_row(LaInsertSearch *search, Oid type)
{
	TupleDesc	descriptor = lookup_rowtype_tupdesc_copy(type, -1);
	bool		found = false;

	for (int i = 0; i < descriptor->natts && !found; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, i);

		found = !attribute->attisdropped &&
			la_insert_search_type(search, attribute->atttypid);
	}
	FreeTupleDesc(descriptor);
	return found;
}

/*
 * The bounds of a range, and how they are compared, which the range may say itself.
 * Its other functions must be immutable.
 */
static bool
search_range(LaInsertSearch *search, Oid type)
{
	const TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_RANGE_INFO);

	return la_insert_search_function(search, entry->rng_cmp_proc_finfo.fn_oid) ||
		la_insert_search_type(search, entry->rngelemtype->type_id);
}
