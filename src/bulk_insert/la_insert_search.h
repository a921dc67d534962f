/*-------------------------------------------------------------------------
 *
 * la_insert_search.h
 *	  a search for functions that see the rows of an insert
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_SEARCH_H
#define LA_INSERT_SEARCH_H

#include "bulk_insert/la_insert_finding.h"

extern bool la_insert_search(Node *expression, LaInsertSearch *search);
extern bool la_insert_search_stored(LaInsertSearch *search,
									LaInsertSubject subject, const char *stored);

#endif							/* LA_INSERT_SEARCH_H */
