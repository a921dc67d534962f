/*-------------------------------------------------------------------------
 *
 * la_insert_classes.h
 *	  what core calls for operator classes of users
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_CLASSES_H
#define LA_INSERT_CLASSES_H

#include "nodes/pg_list.h"

#include "bulk_insert/judge/la_insert_known.h"

extern LaInsertCalls la_insert_classes(const List *types);
extern LaInsertCalls la_insert_classes_of_core_types(void);

#endif							/* LA_INSERT_CLASSES_H */
