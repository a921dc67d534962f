/*-------------------------------------------------------------------------
 *
 * la_insert_image.h
 *	  rows on a private image of the page that they will be on
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_IMAGE_H
#define LA_INSERT_IMAGE_H

#include "access/htup_details.h"
#include "executor/tuptable.h"
#include "storage/bufpage.h"

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

typedef struct LaInsertImage
{
	Page		page;
	int			rows;
	bool		toasted;		/* has it rows that were toasted before? */
	const uint64 *line;			/* where the line of the input is told that a
								 * row comes from, or NULL */
	uint64	   *lines;			/* of each row, or NULL */
} LaInsertImage;

typedef enum LaInsertRoom
{
	LA_INSERT_ADDED,
	LA_INSERT_FULL,				/* not added: no room */
	LA_INSERT_WIDE,				/* not added: values must be toasted first */
} LaInsertRoom;

extern bool la_insert_row_is_short(const TupleTableSlot *slot);
extern bool la_insert_row_measure(LaInsertRow *row, TupleTableSlot *slot);
extern bool la_insert_row_form(const LaInsertRow *row, HeapTupleHeader place);

extern LaInsertRoom la_insert_image_add(LaInsertImage *image, Size spare,
										TupleTableSlot *slot);
extern LaInsertRoom la_insert_image_add_tuple(LaInsertImage *image, Size spare,
											  const HeapTupleHeaderData *tuple,
											  Size length);
extern Size la_insert_image_bytes(const LaInsertImage *image);
extern void la_insert_image_clear(LaInsertImage *image, Page memory);

#endif							/* LA_INSERT_IMAGE_H */
