/*-------------------------------------------------------------------------
 *
 * la_insert_plain.h
 *	  rows that all go into one table
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_PLAIN_H
#define LA_INSERT_PLAIN_H

#include "bulk_insert/sink/la_insert_target.h"

extern void la_insert_plain_collect(LaInsertTarget *target, double bytes);
extern void la_insert_plain_add(LaInsertTarget *target, TupleTableSlot *row);

#endif							/* LA_INSERT_PLAIN_H */
