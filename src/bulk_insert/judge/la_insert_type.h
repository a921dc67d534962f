/*-------------------------------------------------------------------------
 *
 * la_insert_type.h
 *	  which functions are called for values of a type, out of a query's sight
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_TYPE_H
#define LA_INSERT_TYPE_H

#include "access/transam.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_type.h"

#include "bulk_insert/judge/la_insert_function.h"

extern void la_insert_note_made_type(LaInsertSearch *search, Oid type);
extern bool la_insert_is_of_catalog_rows(Oid type);
extern bool la_insert_search_type(LaInsertSearch *search, Oid type);

/*
 * A value of this type comes up.  Types that core cannot be without call nothing but
 * core's own functions, unless they do not tell what their values are made of.
 */
static inline void
la_insert_note_type(LaInsertSearch *search, Oid type)
{
	if (type >= FirstUnpinnedObjectId)
		la_insert_note_made_type(search, type);
}

/*
 * Does a type that core cannot be without not tell what its values are made of?  Rows of
 * catalogs can have arrays of any type, so neither they do nor arrays of them.
 */
static inline bool
la_insert_type_says_nothing(Oid type)
{
	if (likely(type < FirstGenbkiObjectId))
		return type == RECORDOID || type == RECORDARRAYOID ||
			type == ANYARRAYOID || type == AttributeRelation_Rowtype_Id ||
			type == PG_ATTRIBUTEARRAYOID;
	return type < FirstUnpinnedObjectId && la_insert_is_of_catalog_rows(type);
}

#endif							/* LA_INSERT_TYPE_H */
