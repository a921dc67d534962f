/*-------------------------------------------------------------------------
 *
 * la_insert_volatile.h
 *	  whether an expression names a function that sees new rows
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_VOLATILE_H
#define LA_INSERT_VOLATILE_H

#include "nodes/nodes.h"

#include "bulk_insert/judge/la_insert_function.h"

extern bool la_insert_walk(Node *node, void *search);

#endif							/* LA_INSERT_VOLATILE_H */
