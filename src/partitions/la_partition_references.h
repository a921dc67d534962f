/*-------------------------------------------------------------------------
 *
 * la_partition_references.h
 *	  foreign keys of a table, and to it
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PARTITION_REFERENCES_H
#define LA_PARTITION_REFERENCES_H

#include "nodes/pg_list.h"
#include "utils/relcache.h"

extern List *la_partition_references_of(Oid table);
extern List *la_partition_references_to(Oid table);
extern Oid	la_partition_blocking_reference(Relation parent);
extern bool la_partition_references_itself(Oid table);

#endif							/* LA_PARTITION_REFERENCES_H */
