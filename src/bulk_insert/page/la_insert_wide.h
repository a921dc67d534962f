/*-------------------------------------------------------------------------
 *
 * la_insert_wide.h
 *	  rows whose values must be toasted
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_WIDE_H
#define LA_INSERT_WIDE_H

#include "bulk_insert/page/la_insert_batch.h"

/*
 * Makes room in a batch, which has some rows.
 */
typedef void (*LaInsertFlush) (void *arg);

extern bool la_insert_may_toast(Relation table);
extern void la_insert_add_wide(LaInsertBatch *batch, TupleTableSlot *row,
							   int options, LaInsertFlush flush, void *arg);
extern HeapTuple la_insert_toast(LaInsertBatch *batch, Relation table,
								 TupleTableSlot *row, int options);

#endif							/* LA_INSERT_WIDE_H */
