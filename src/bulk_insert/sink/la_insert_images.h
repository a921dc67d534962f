/*-------------------------------------------------------------------------
 *
 * la_insert_images.h
 *	  pages of several tables that are filled side by side
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_IMAGES_H
#define LA_INSERT_IMAGES_H

#include "bulk_insert/page/la_insert_batch.h"

/*
 * The images of one table, in order, all but the last one full; all zeroes when there are
 * none.
 */
typedef struct LaInsertStack
{
	LaInsertImage *first;
	LaInsertImage *last;
	int			count;
} LaInsertStack;

/*
 * The images of all tables.
 */
typedef struct LaInsertImages
{
	MemoryContext context;
	const uint64 *line;			/* as of LaInsertImage */
	int			most;			/* so many may be made */
	int			made;
	LaInsertImage *unused;
} LaInsertImages;

extern int	la_insert_images_most(const uint64 *line);
extern LaInsertImages *la_insert_images_begin(const uint64 *line);
extern LaInsertRoom la_insert_images_add(LaInsertImages *images,
										 LaInsertStack *stack, int tables,
										 Size spare, TupleTableSlot *slot,
										 HeapTuple toasted);
extern bool la_insert_images_reserve(LaInsertImages *images,
									 LaInsertStack *stack, int tables);
extern void la_insert_images_take_first(LaInsertImages *images,
										LaInsertStack *stack,
										LaInsertBatch *batch);
extern void la_insert_images_end(LaInsertImages *images);

#endif							/* LA_INSERT_IMAGES_H */
