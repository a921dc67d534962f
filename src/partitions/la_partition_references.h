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

extern List *la_partition_references_of(Oid table);
extern List *la_partition_references_locked(Oid table);
extern List *la_partition_references_to(Oid table);
extern List *la_partition_references_locked_to(Oid table);
extern List *la_partition_references_keys_to(Oid table);
extern bool la_partition_references_itself(Oid table);

#endif							/* LA_PARTITION_REFERENCES_H */
