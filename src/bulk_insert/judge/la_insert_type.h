/*-------------------------------------------------------------------------
 *
 * la_insert_type.h
 *	  could a function that belongs to a type see the rows of an insert?
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_TYPE_H
#define LA_INSERT_TYPE_H

#include "access/transam.h"
#include "catalog/pg_attribute_d.h"
#include "catalog/pg_type_d.h"
#include "utils/lsyscache.h"

#include "bulk_insert/judge/la_insert_function.h"

extern bool la_insert_search_users_type(LaInsertSearch *search, Oid type);
extern bool la_insert_search_types(const List *types, LaInsertSearch *search);

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
	return type < FirstUnpinnedObjectId &&
		(type_is_rowtype(type) || type_is_rowtype(get_element_type(type)));
}

/*
 * Can a function see the rows so far that core may call for a value of this type?  Types that
 * core cannot be without call nothing but core's own functions.
 */
static inline bool
la_insert_search_type(LaInsertSearch *search, Oid type)
{
	return unlikely(type >= FirstUnpinnedObjectId) && la_insert_search_users_type(search, type);
}

#endif							/* LA_INSERT_TYPE_H */
