/*-------------------------------------------------------------------------
 *
 * la_plain.h
 *	  what is sure to call no function of a user
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PLAIN_H
#define LA_PLAIN_H

#include "nodes/pg_list.h"

extern bool la_plain_node(const Node *node);
extern Oid	la_plain_cast(Oid from, Oid to);
extern bool la_plain_type(Oid type);
extern bool la_plain_types(const List *types);
extern bool la_plain_comparison(Oid type);
extern bool la_plain_calls_by_name(Oid function, void *context);

#endif							/* LA_PLAIN_H */
