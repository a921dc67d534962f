/*-------------------------------------------------------------------------
 *
 * la_insert_relation.h
 *	  into which tables rows are inserted by core
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_RELATION_H
#define LA_INSERT_RELATION_H

#include "nodes/execnodes.h"

#include "la_reason.h"

extern LaReason la_insert_unsuitable_storage(Relation table);
extern LaReason la_insert_unsuitable_table(const ResultRelInfo *target);
extern LaReason la_insert_unsuitable_triggers(const TriggerDesc *triggers,
											  bool one_of_many);
extern LaReason la_insert_unsuitable_row_triggers(const TriggerDesc *triggers,
												  bool one_of_many);

#endif							/* LA_INSERT_RELATION_H */
