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

#include "bulk_insert/la_insert_function.h"

extern bool la_insert_search_made_type(LaInsertSearch *search, Oid type);

/*
 * Can a function see the rows so far that core may call for a value of this type?
 * The CHECK constraints of domains are left to the caller, in search->checks.  Types
 * that core cannot be without call none.
 */
static inline bool
la_insert_search_type(LaInsertSearch *search, Oid type)
{
	return type >= FirstUnpinnedObjectId &&
		la_insert_search_made_type(search, type);
}

#endif							/* LA_INSERT_TYPE_H */
