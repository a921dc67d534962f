/*-------------------------------------------------------------------------
 *
 * la_index_peek.h
 *	  advice for index scans that are executed by core
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INDEX_PEEK_H
#define LA_INDEX_PEEK_H

#include "attach/la_registry.h"

extern bool la_index_peek_possible(PlanState *planstate, LaReason reason);
extern void la_index_peek_attach(LaNode *node);

#endif							/* LA_INDEX_PEEK_H */
