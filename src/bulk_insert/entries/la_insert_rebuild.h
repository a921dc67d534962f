/*-------------------------------------------------------------------------
 *
 * la_insert_rebuild.h
 *	  indexes that are built anew once all rows are there
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_REBUILD_H
#define LA_INSERT_REBUILD_H

#include "utils/rel.h"

extern bool la_insert_can_rebuild(Relation table, Relation index);
extern void la_insert_rebuild(Relation table, Relation index);

#endif							/* LA_INSERT_REBUILD_H */
