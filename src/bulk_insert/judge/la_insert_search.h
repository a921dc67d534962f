/*-------------------------------------------------------------------------
 *
 * la_insert_search.h
 *	  a search for functions that could see the rows of an insert
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_SEARCH_H
#define LA_INSERT_SEARCH_H

#include "bulk_insert/judge/la_insert_type.h"

extern bool la_insert_search(Node *expression, LaInsertSearch *search);
extern LaInsertCalls la_insert_search_again(const List *functions, const List *types);

#endif							/* LA_INSERT_SEARCH_H */
