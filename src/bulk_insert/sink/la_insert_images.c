/*-------------------------------------------------------------------------
 *
 * la_insert_images.c
 *	  pages of several tables that are filled side by side
 *
 * Each table has an image of the page that is filled, and those that are full and wait for
 * others, so that the table is extended for several of them at once.  All take no more
 * than work_mem.  A row is written once, where the last one of its table was: rows that lie
 * in the order in which they come (la_insert_pool.c) have left the processor's cache when
 * those of a table are gathered.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "bulk_insert/sink/la_insert_images.h"

/* Images of one table at most: more gain nothing. */
#define MOST_OF_ONE 8

/*
 * How many images there is memory for; "line" as for la_insert_image_begin().
 */
int
la_insert_images_most(const uint64 *line)
{
	return work_mem * (Size) 1024 / la_insert_image_size(line);
}

/*
 * No images, in the current memory context.
 */
LaInsertImages *
la_insert_images_begin(const uint64 *line)
{
	LaInsertImages *images = palloc0_object(LaInsertImages);

	images->context = CurrentMemoryContext;
	images->line = line;
	images->most = la_insert_images_most(line);
	return images;
}

static inline LaInsertRoom
add_row(LaInsertImage *image, Size spare, TupleTableSlot *slot, HeapTuple toasted)
{
	return likely(toasted == NULL) ? la_insert_image_add(image, spare, slot) :
		la_insert_image_add_tuple(image, spare, toasted->t_data, toasted->t_len);
}

/*
 * An image of no rows; NULL when there are none, and none may be made.
 */
static LaInsertImage *
unused_image(LaInsertImages *images)
{
	LaInsertImage *image = images->unused;
	MemoryContext caller;

	if (image != NULL)
	{
		images->unused = image->next;
		Assert(image->rows == 0 && image->line == images->line);
		return image;
	}
	if (images->made == images->most)
		return NULL;
	caller = MemoryContextSwitchTo(images->context);
	image = palloc_object(LaInsertImage);
	la_insert_image_begin(image, palloc(BLCKSZ), images->line);
	images->made++;
	MemoryContextSwitchTo(caller);
	return image;
}

/*
 * Gives a table one more image, unless it has had its share.
 */
static bool
add_image(LaInsertImages *images, LaInsertStack *stack, int tables)
{
	LaInsertImage *image;

	if (stack->count > 0 &&
		stack->count >= Min(images->most / tables, MOST_OF_ONE))
		return false;
	image = unused_image(images);
	if (image == NULL)
		return false;
	image->next = NULL;
	if (stack->last == NULL)
		stack->first = image;
	else
		stack->last->next = image;
	stack->last = image;
	stack->count++;
	return true;
}

/*
 * Adds a row of the stack's table, which is one of so many; the tuple that it has become if
 * its values have been toasted, otherwise NULL.  Images of some table may have to be taken
 * first, those of this one if it has any: then all of them are full (LA_INSERT_FULL).
 */
LaInsertRoom
la_insert_images_add(LaInsertImages *images, LaInsertStack *stack, int tables,
					 Size spare, TupleTableSlot *slot, HeapTuple toasted)
{
	LaInsertRoom room = LA_INSERT_FULL;

	if (likely(stack->last != NULL))
		room = add_row(stack->last, spare, slot, toasted);
	if (room == LA_INSERT_FULL && add_image(images, stack, tables))
		room = add_row(stack->last, spare, slot, toasted);
	return room;
}

/*
 * Gives a table an image, if it has none.  False when there is none for it.
 */
bool
la_insert_images_reserve(LaInsertImages *images, LaInsertStack *stack,
						 int tables)
{
	return stack->count > 0 || add_image(images, stack, tables);
}

/*
 * Moves the rows of a stack's first image to a batch for its table, which is empty: they
 * exchange their pages.
 */
void
la_insert_images_take_first(LaInsertImages *images, LaInsertStack *stack,
							LaInsertBatch *batch)
{
	LaInsertImage *image = stack->first;
	LaInsertImage empty = batch->image;

	Assert(empty.rows == 0);
	stack->first = image->next;
	if (stack->first == NULL)
		stack->last = NULL;
	stack->count--;
	batch->image = *image;
	*image = empty;
	image->line = images->line;
	image->next = images->unused;
	images->unused = image;
}

/*
 * Frees the images, which have no rows.
 */
void
la_insert_images_end(LaInsertImages *images)
{
	LaInsertImage *image;

	while ((image = images->unused) != NULL)
	{
		images->unused = image->next;
		la_insert_image_end(image);
		pfree(image);
		images->made--;
	}
	Assert(images->made == 0);
	pfree(images);
}
