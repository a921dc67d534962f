/*-------------------------------------------------------------------------
 *
 * la_needed_projection.h
 *	  rows that are looked at when core forms them
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_NEEDED_PROJECTION_H
#define LA_NEEDED_PROJECTION_H

#include "needed_partitions/la_needed_statement.h"

extern void la_needed_projection_watch(LaNeeded *needed);
extern bool la_needed_is_row(const List *columns, Relation table);

#endif							/* LA_NEEDED_PROJECTION_H */
