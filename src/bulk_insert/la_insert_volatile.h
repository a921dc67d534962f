/*-------------------------------------------------------------------------
 *
 * la_insert_volatile.h
 *	  whether evaluating something can call a function that sees new rows
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_VOLATILE_H
#define LA_INSERT_VOLATILE_H

#include "nodes/nodes.h"

#include "bulk_insert/la_insert_function.h"

extern bool la_insert_search(Node *expression, LaInsertSearch *search);

#endif							/* LA_INSERT_VOLATILE_H */
