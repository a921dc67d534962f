/*-------------------------------------------------------------------------
 *
 * la_insert_search.h
 *	  a search for functions that see the rows of an insert
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_SEARCH_H
#define LA_INSERT_SEARCH_H

#include "bulk_insert/judge/la_insert_finding.h"

/*
 * Looks at what belongs to an object, as la_insert_search() at an expression.
 */
typedef bool (*LaInsertLook) (LaInsertSearch *search, Oid object);

extern bool la_insert_search(Node *expression, LaInsertSearch *search);
extern bool la_insert_search_stored(LaInsertSearch *search,
									LaInsertSubject subject, const char *stored);
extern bool la_insert_search_by(LaInsertSearch *search, LaInsertSubject subject,
								LaInsertLook look);

#endif							/* LA_INSERT_SEARCH_H */
