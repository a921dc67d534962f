/*-------------------------------------------------------------------------
 *
 * la_insert_relation.h
 *	  into which tables rows may be inserted in batches, and what they have called
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_RELATION_H
#define LA_INSERT_RELATION_H

#include "nodes/execnodes.h"
#include "partitioning/partdesc.h"

#include "bulk_insert/judge/la_insert_known.h"
#include "la_reason.h"

extern bool la_insert_has_subpartitions(PartitionDesc partitions);
extern LaReason la_insert_unsuitable_table(Relation table,
										   const TriggerDesc *triggers);
extern LaReason la_insert_unsuitable_partition(const ResultRelInfo *partition,
											   bool is_copy);
extern LaInsertCalls la_insert_calls(const ResultRelInfo *target);
extern bool la_insert_has_foreign_partition(Relation table);

#endif							/* LA_INSERT_RELATION_H */
