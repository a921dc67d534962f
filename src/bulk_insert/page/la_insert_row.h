/*-------------------------------------------------------------------------
 *
 * la_insert_row.h
 *	  a row as it will be on a page
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_ROW_H
#define LA_INSERT_ROW_H

#include "access/htup_details.h"
#include "executor/tuptable.h"

/*
 * A row that is not formed yet.
 */
typedef struct LaInsertRow
{
	TupleTableSlot *slot;
	HeapTuple	tuple;			/* as which it comes, or NULL */
	MinimalTuple minimal;		/* as which it comes, or NULL */
	Size		length;			/* bytes on the page */
	Size		header;			/* bytes before the first value, where it
								 * comes as values */
	bool		has_null;
} LaInsertRow;

extern bool la_insert_row_is_short(const TupleTableSlot *slot);
extern bool la_insert_row_measure(LaInsertRow *row, TupleTableSlot *slot);
extern bool la_insert_row_form(const LaInsertRow *row, HeapTupleHeader place);

#endif							/* LA_INSERT_ROW_H */
