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

extern void la_insert_note_made_type(LaInsertSearch *search, Oid type);
extern bool la_insert_search_type(LaInsertSearch *search, Oid type);

/*
 * A value of this type comes up.  Types that core cannot be without call nothing but
 * core's own functions.
 */
static inline void
la_insert_note_type(LaInsertSearch *search, Oid type)
{
	if (type >= FirstUnpinnedObjectId)
		la_insert_note_made_type(search, type);
}

#endif							/* LA_INSERT_TYPE_H */
