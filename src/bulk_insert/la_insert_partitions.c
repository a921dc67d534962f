/*-------------------------------------------------------------------------
 *
 * la_insert_partitions.c
 *	  rows that go to partitions of a table
 *
 * Rows of all partitions wait together (la_insert_pool.c).  When there is no more room, the
 * partitions that have the most rows are served, until half of the room is free.  One
 * that has more rows than fit on a page gets full pages, and the rest waits on; where
 * there are too many partitions for that, one gets all its rows at once, by
 * heap_multi_insert().
 *
 * Pages of ours come after a few MB of the whole statement.  A partition is extended by no
 * more of them than it has rows for, unless there are few partitions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heaptoast.h"

#include "bulk_insert/la_insert_partitions.h"

/*
 * Memory for rows of each partition, in the mean, where there is so much: more than a few
 * pages gain nothing, and the processor's cache holds them.
 */
#define BYTES_OF_EACH ((Size) 8 * BLCKSZ)

/*
 * Pages of all partitions that are empty and wait for rows, at most: half of the ring of
 * buffers that GetAccessStrategy() in freelist.c gives those who write in bulk.
 */
#define PAGES_AHEAD 1024

static void insert_wide(LaInsertRoute *route, LaInsertTarget *target,
						TupleTableSlot *row);
static void make_room(LaInsertRoute *route);
static int	waiting_first(LaInsertRoute *route);
static int	compare_waiting(const void *a, const void *b);
static void flush_full_pages(LaInsertRoute *route, LaInsertTarget *target);
static void flush_queue(LaInsertRoute *route, LaInsertTarget *target);
static void fill_page(LaInsertRoute *route, LaInsertTarget *target);
static Size page_room(const LaInsertTarget *target);

/*
 * From now on rows are collected.
 */
void
la_insert_partitions_collect(LaInsertRoute *route)
{
	route->pool = la_insert_pool_begin(route->common->line);
	la_insert_route_collect(route);
}

/*
 * Adds a row of a partition to those that wait.
 */
void
la_insert_partitions_add(LaInsertRoute *route, LaInsertTarget *target,
						 TupleTableSlot *row)
{
	LaInsertPool *pool = route->pool;
	LaInsertRoom room;

	while ((room = la_insert_pool_add(pool, &target->queue, row)) ==
		   LA_INSERT_FULL)
	{
		if (!la_insert_pool_grow(pool, route->count * BYTES_OF_EACH))
			make_room(route);
	}
	if (room == LA_INSERT_WIDE)
		insert_wide(route, target, row);
}

/*
 * A row whose values must be toasted, or that is too long, is inserted by core, after
 * those before it.
 */
static void
insert_wide(LaInsertRoute *route, LaInsertTarget *target, TupleTableSlot *row)
{
	flush_queue(route, target);
	la_insert_target_insert(target, row);
	target->common->bytes += TOAST_TUPLE_TARGET;
}

/*
 * Inserts rows until half of those that wait, by their bytes, are inserted.
 */
static void
make_room(LaInsertRoute *route)
{
	int			count = waiting_first(route);
	Size		waiting = 0;
	Size		left;

	qsort(route->targets, count, sizeof(LaInsertTarget *), compare_waiting);
	for (int i = 0; i < count; i++)
		waiting += route->targets[i]->queue.bytes;
	left = waiting;
	for (int i = 0; i < count && left > waiting / 2; i++)
	{
		LaInsertTarget *target = route->targets[i];

		left -= target->queue.bytes;
		if (target->queue.bytes > page_room(target))
			flush_full_pages(route, target);
		else
			flush_queue(route, target);
		left += target->queue.bytes;
	}
	la_insert_pool_compact(route->pool);
}

/*
 * Puts the partitions that have waiting rows before the others, and returns their number:
 * in little memory there are rows of few of them.
 */
static int
waiting_first(LaInsertRoute *route)
{
	LaInsertTarget **targets = route->targets;
	int			count = 0;

	for (int i = 0; i < route->count; i++)
	{
		LaInsertTarget *target = targets[i];

		if (target->queue.rows == 0)
			continue;
		targets[i] = targets[count];
		targets[count++] = target;
	}
	return count;
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
 * Inserts rows of a partition as long as they fill pages.
 */
static void
flush_full_pages(LaInsertRoute *route, LaInsertTarget *target)
{
	Size		room = page_room(target);

	la_insert_batch_retarget(target->common->batch,
							 target->relation->ri_RelationDesc);
	la_insert_extent_expect(&target->extent, Max(target->queue.bytes / room, 1),
							PAGES_AHEAD / route->count);
	while (target->queue.bytes > room)
	{
		fill_page(route, target);
		la_insert_target_flush_page(target, true);
	}
}

/*
 * Inserts all rows of a partition that wait.
 */
static void
flush_queue(LaInsertRoute *route, LaInsertTarget *target)
{
	flush_full_pages(route, target);
	while (target->queue.rows > 0)
	{
		fill_page(route, target);
		la_insert_target_flush_rest(target);
	}
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
 * How many bytes of rows, with their line pointers, a page has room for.
 */
static Size
page_room(const LaInsertTarget *target)
{
	return BLCKSZ - SizeOfPageHeaderData -
		RelationGetTargetPageFreeSpace(target->relation->ri_RelationDesc,
									   HEAP_DEFAULT_FILLFACTOR);
}

/*
 * Inserts all rows that wait.
 */
void
la_insert_partitions_flush(LaInsertRoute *route)
{
	if (route->pool->rows == 0)
		return;
	for (int i = 0; i < route->count; i++)
		flush_queue(route, route->targets[i]);
	la_insert_pool_compact(route->pool);
}

/*
 * There are no more rows.
 */
void
la_insert_partitions_end(LaInsertRoute *route)
{
	la_insert_partitions_flush(route);
	for (int i = 0; i < route->count; i++)
		la_insert_target_end(route->targets[i]);
}
