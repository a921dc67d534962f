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
#include "nodes/pg_list.h"

/*
 * The types that come up in a search.  Starts as {0}.
 */
typedef struct LaInsertTypes
{
	List	   *seen;			/* that have been looked at */
	List	   *checks;			/* their CHECK expressions, to be searched yet */
} LaInsertTypes;

extern bool la_insert_search_made_type(LaInsertTypes *types, Oid type);

/*
 * Can a function see the rows so far that core may call for a value of this type?
 * The CHECK constraints of domains are left to the caller, in types->checks.  Types
 * that core cannot be without call none.
 */
static inline bool
la_insert_search_type(LaInsertTypes *types, Oid type)
{
	return type >= FirstUnpinnedObjectId &&
		la_insert_search_made_type(types, type);
}

#endif							/* LA_INSERT_TYPE_H */
