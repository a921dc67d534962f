/*-------------------------------------------------------------------------
 *
 * la_insert_partitions.c
 *	  rows that go to partitions of a table
 *
 * Rows of all partitions wait together, and are inserted by core (la_insert_pool.c) until an
 * insert has filled a few MB.  After that each partition has images of pages
 * (la_insert_images.c), where there is memory enough.  Where there are too many partitions for
 * that, their rows wait together on.  When there is no more room, the partitions that have
 * the most rows are served, until half of the room is free.  One that has more rows than fit
 * on a page gets full pages, and the rest waits on; one that has fewer gets them all at once,
 * by heap_multi_insert().  Indexes are to show what they refuse before many more rows come:
 * la_insert_table.c has all rows inserted now and then.
 *
 * Pages of ours come after a few MB of the whole statement.  A partition is extended by no
 * more of them than it has rows for, unless there are few partitions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heaptoast.h"
#include "utils/memutils.h"

#include "bulk_insert/page/la_insert_batch.h"
#include "bulk_insert/sink/la_insert_partitions.h"

/*
 * Memory of a pool for rows of each partition, in the mean, where there is so much: more than
 * a few pages gain nothing, and the processor's cache holds them.
 */
#define BYTES_OF_EACH ((Size) 8 * BLCKSZ)

/*
 * Pages of all partitions that are empty and wait for rows, at most: half of the ring of
 * buffers of those who write in bulk, which is of 16 MB.
 */
#define PAGES_AHEAD 1024

/*
 * From now on rows are collected.
 */
void
la_insert_partitions_collect(LaInsertRoute *route)
{
	route->pool = la_insert_pool_begin(route->common->line);
	la_insert_route_collect(route);
}

static LaInsertRoom
add(LaInsertRoute *route, LaInsertTarget *target, TupleTableSlot *row,
	HeapTuple toasted)
{
	if (route->images != NULL)
		return la_insert_images_add(route->images, &target->stack, route->count,
									target->spare, row, toasted);
	Assert(toasted == NULL);
	return la_insert_pool_add(route->pool, &target->queue, row);
}

/*
 * So many pages of a partition will be filled now.
 */
static void
expect(const LaInsertRoute *route, LaInsertTarget *target, uint32 pages)
{
	la_insert_target_expect(target, pages, PAGES_AHEAD / route->count);
}

/*
 * Inserts so many images of a partition, one at least, which are full.
 */
static void
flush_images(LaInsertRoute *route, LaInsertTarget *target, int count)
{
	LaInsertBatch *batch = target->common->batch;

	la_insert_batch_retarget(batch, target->relation->ri_RelationDesc);
	for (; count > 0; count--)
	{
		expect(route, target, count);
		la_insert_images_take_first(route->images, &target->stack, batch);
		la_insert_target_flush_page(target);
	}
	la_insert_target_unpin(target);
}

/*
 * Inserts the full images of the partition that has the most of them.  False when none
 * has any.
 */
static bool
flush_highest(LaInsertRoute *route)
{
	LaInsertTarget *highest = route->targets[0];

	for (int i = 1; i < route->waiting; i++)
	{
		if (route->targets[i]->stack.count > highest->stack.count)
			highest = route->targets[i];
	}
	if (highest->stack.count < 2)
		return false;
	flush_images(route, highest, highest->stack.count - 1);
	return true;
}

/*
 * Inserts all rows of a partition that wait on images: those of the last one, which is not
 * full, where core finds room.
 */
static void
flush_stack(LaInsertRoute *route, LaInsertTarget *target)
{
	LaInsertBatch *batch = target->common->batch;

	if (target->stack.count > 1)
		flush_images(route, target, target->stack.count - 1);
	if (target->stack.count == 0)
		return;
	la_insert_batch_retarget(batch, target->relation->ri_RelationDesc);
	la_insert_images_take_first(route->images, &target->stack, batch);
	expect(route, target, 1);
	if (batch->image.rows > 0)
		la_insert_target_flush_rest(target);
	la_insert_target_unpin(target);
}

/*
 * How many bytes of rows, with their line pointers, a page has room for.
 */
static Size
page_room(const LaInsertTarget *target)
{
	return BLCKSZ - SizeOfPageHeaderData - target->spare;
}

/*
 * Collects as many rows of a partition as fit on a page, one at least.
 */
static void
fill_page(LaInsertRoute *route, LaInsertTarget *target)
{
	LaInsertRoom room = LA_INSERT_ADDED;

	while (target->queue.rows > 0 && room == LA_INSERT_ADDED)
		room = la_insert_pool_move_first(route->pool, &target->queue,
										 target->common->batch);
}

/*
 * Inserts rows of a partition as long as they fill pages.
 */
static void
flush_full_pages(LaInsertRoute *route, LaInsertTarget *target)
{
	Size		room = page_room(target);

	la_insert_batch_retarget(target->common->batch,
							 target->relation->ri_RelationDesc);
	while (target->queue.bytes > room)
	{
		expect(route, target, target->queue.bytes / room);
		fill_page(route, target);
		la_insert_target_flush_page(target);
	}
	la_insert_target_unpin(target);
}

/*
 * Inserts all rows of a partition that wait in the pool.
 */
static void
flush_queue(LaInsertRoute *route, LaInsertTarget *target)
{
	flush_full_pages(route, target);
	expect(route, target, 1);
	while (target->queue.rows > 0)
	{
		fill_page(route, target);
		la_insert_target_flush_rest(target);
	}
	la_insert_target_unpin(target);
}

/*
 * Inserts all rows of a partition that wait.
 */
static void
flush_all_of(LaInsertRoute *route, LaInsertTarget *target)
{
	if (route->images != NULL)
		flush_stack(route, target);
	else
		flush_queue(route, target);
}

/*
 * Inserts all rows that wait.
 */
void
la_insert_partitions_flush(LaInsertRoute *route)
{
	if (route->waiting == 0)
		return;
	for (int i = 0; i < route->waiting; i++)
		flush_all_of(route, route->targets[i]);
	route->waiting = 0;
	if (route->pool != NULL)
		la_insert_pool_compact(route->pool);
}

/*
 * There are more partitions than images, or other reasons against images.
 */
static void
go_on_with_pool(LaInsertRoute *route)
{
	MemoryContext caller = MemoryContextSwitchTo(route->common->batch->context);

	la_insert_partitions_flush(route);
	la_insert_images_end(route->images);
	route->images = NULL;
	route->wants_pool = true;
	route->pool = la_insert_pool_begin(route->common->line);
	MemoryContextSwitchTo(caller);
}

/*
 * Are there so few partitions that each can have an image, and one that waits?
 */
static bool
wants_images(const LaInsertRoute *route)
{
	return !route->wants_pool && la_insert_past_threshold(route->common) &&
		2 * route->count <= la_insert_images_most(route->common->line);
}

static void
go_on_with_images(LaInsertRoute *route)
{
	MemoryContext caller = MemoryContextSwitchTo(route->common->batch->context);

	la_insert_partitions_flush(route);
	la_insert_pool_end(route->pool);
	route->pool = NULL;
	route->images = la_insert_images_begin(route->common->line);
	MemoryContextSwitchTo(caller);
}

/*
 * Of two partitions, the one with more bytes is first.
 */
static int
compare_waiting(const void *a, const void *b)
{
	Size		first = (*(LaInsertTarget *const *) a)->queue.bytes;
	Size		second = (*(LaInsertTarget *const *) b)->queue.bytes;

	return (second > first) - (second < first);
}

/*
 * Puts the partitions that still have waiting rows before those that had.
 */
static void
put_waiting_first(LaInsertRoute *route)
{
	LaInsertTarget **targets = route->targets;
	int			count = 0;

	for (int i = 0; i < route->waiting; i++)
	{
		LaInsertTarget *target = targets[i];

		target->place = i;
		if (target->queue.rows == 0)
			continue;
		targets[i] = targets[count];
		targets[i]->place = i;
		targets[count] = target;
		target->place = count++;
	}
	route->waiting = count;
}

/*
 * Inserts rows until half of those that wait, by their bytes, are inserted.
 */
static void
make_room_in_pool(LaInsertRoute *route)
{
	Size		waiting = 0;
	Size		left;

	qsort(route->targets, route->waiting, sizeof(LaInsertTarget *),
		  compare_waiting);
	for (int i = 0; i < route->waiting; i++)
		waiting += route->targets[i]->queue.bytes;
	left = waiting;
	for (int i = 0; i < route->waiting && left > waiting / 2; i++)
	{
		LaInsertTarget *target = route->targets[i];

		left -= target->queue.bytes;
		if (target->queue.bytes > page_room(target))
			flush_full_pages(route, target);
		else
			flush_queue(route, target);
		left += target->queue.bytes;
	}
	put_waiting_first(route);
	la_insert_pool_compact(route->pool);
}

/*
 * There is no room for another row of a partition: that changes.
 */
static void
make_room(LaInsertRoute *route, LaInsertTarget *target)
{
	if (route->images != NULL)
	{
		if (target->stack.count > 0)
			flush_images(route, target, target->stack.count);
		else if (!flush_highest(route))
			go_on_with_pool(route);
	}
	else if (!la_insert_pool_grow(route->pool, route->count * BYTES_OF_EACH))
	{
		if (wants_images(route))
			go_on_with_images(route);
		else
			make_room_in_pool(route);
	}
}

/*
 * Has a row wait; "toasted" as for la_insert_images_add(), to whose images it goes then.
 */
static LaInsertRoom
let_wait(LaInsertRoute *route, LaInsertTarget *target, TupleTableSlot *row,
		 HeapTuple toasted)
{
	LaInsertRoom room;

	while ((room = add(route, target, row, toasted)) == LA_INSERT_FULL)
		make_room(route, target);
	if (room == LA_INSERT_ADDED && target->place >= route->waiting)
	{
		LaInsertTarget *other = route->targets[route->waiting];

		route->targets[target->place] = other;
		other->place = target->place;
		route->targets[route->waiting] = target;
		target->place = route->waiting++;
	}
	return room;
}

/*
 * Can a row of a partition be toasted, and wait?  It must get a page of ours then.
 */
static bool
wants_toasted(LaInsertRoute *route, LaInsertTarget *target)
{
	if (!la_insert_may_toast(target->relation->ri_RelationDesc))
		return false;
	if (route->images == NULL && wants_images(route))
		go_on_with_images(route);
	if (route->images == NULL)
		return false;
	expect(route, target, target->stack.count + 1);
	return la_insert_target_wants_page(target, TOAST_TUPLE_TARGET);
}

/*
 * Does a partition have an image, or can it get one?
 */
static bool
has_image(LaInsertRoute *route, LaInsertTarget *target)
{
	while (route->images != NULL)
	{
		if (la_insert_images_reserve(route->images, &target->stack,
									 route->count))
			return true;
		make_room(route, target);
	}
	return false;
}

/*
 * A row whose values must be toasted, or that is too long.  It can wait on an image;
 * otherwise core inserts it, after those before it.
 */
static void
add_wide(LaInsertRoute *route, LaInsertTarget *target, TupleTableSlot *row)
{
	LaInsertBatch *batch = target->common->batch;

	if (wants_toasted(route, target) && has_image(route, target))
	{
		Relation	table = target->relation->ri_RelationDesc;

		let_wait(route, target, row, la_insert_toast(batch, table, row, 0));
		return;
	}
	flush_all_of(route, target);
	expect(route, target, 1);
	la_insert_target_insert(target, row);
	la_insert_target_unpin(target);
	target->common->bytes += TOAST_TUPLE_TARGET;
}

/*
 * Adds a row of a partition to those that wait.
 */
void
la_insert_partitions_add(LaInsertRoute *route, LaInsertTarget *target,
						 TupleTableSlot *row)
{
	if (let_wait(route, target, row, NULL) == LA_INSERT_WIDE)
		add_wide(route, target, row);
}

/*
 * Inserts all rows that wait, because one that may not wait comes after them.  There may be
 * others, each of which would have toasted rows put on pages of their own, half empty.
 */
void
la_insert_partitions_interrupt(LaInsertRoute *route)
{
	if (route->images != NULL)
		go_on_with_pool(route);
	else
		la_insert_partitions_flush(route);
}

/*
 * There are no more rows, and none that wait.
 */
void
la_insert_partitions_end(LaInsertRoute *route)
{
	for (int i = 0; i < route->count; i++)
		la_insert_target_end(route->targets[i]);
}
