/*-------------------------------------------------------------------------
 *
 * la_join_end.h
 *	  will a join be read to its end?
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_END_H
#define LA_JOIN_END_H

#include "attach/la_registry.h"

extern bool la_join_is_read_to_end(const LaNode *node);

#endif							/* LA_JOIN_END_H */
