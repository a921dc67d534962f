/*-------------------------------------------------------------------------
 *
 * la_insert_partitions.c
 *	  rows that go to partitions of a table
 *
 * There is no memory for a page of each partition, so rows of all of them wait in one pool: one
 * after another as they come, each with a link to the next one of its partition.  The pool grows
 * up to work_mem.  When it is full, the partitions that have the most rows are served, until half
 * of the room is free.  One that has more rows than fit on a page gets full pages, and the rest
 * waits on; one that has fewer gets them all at once, by heap_multi_insert().  Room that rows
 * have left is regained by moving the others together.  Indexes are to show what they refuse
 * before many more rows come: la_insert_table.c has all rows inserted now and then.
 *
 * Pages of ours come after a few MB of the whole statement.  A partition is extended by no
 * more of them than it has rows for, unless there are few partitions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heaptoast.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "bulk_insert/page/la_insert_batch.h"
#include "bulk_insert/sink/la_insert_partitions.h"

/* Bytes of the pool at first: arbitrary. */
#define FIRST_SIZE (32 * 1024)

/*
 * Bytes of the pool for rows of each partition, in the mean, where there is so much memory: more
 * than a few pages gain nothing, and the processor's cache holds them.
 */
#define BYTES_OF_EACH ((Size) 8 * BLCKSZ)

/*
 * Pages of all partitions that are empty and wait for rows, at most: half of the ring of
 * buffers of those who write in bulk, which is of 16 MB.
 */
#define PAGES_AHEAD 1024

/*
 * Pages by which core extends a table at once, at most, for rows that come one by one in bulk: as
 * many as it has so far.  Mirrors RelationAddBlocks() in hio.c.
 */
#define PAGES_OF_CORE 64

/*
 * All rows that wait.
 */
typedef struct LaInsertPool
{
	char	   *memory;
	Size		size;			/* bytes of it */
	Size		used;			/* bytes up to which there are rows, or have
								 * been */
	Size		limit;			/* bytes that it may have */
	const uint64 *line;			/* where the line of the input is told that a
								 * row comes from, or NULL */
} LaInsertPool;

/*
 * A row in the pool, followed by what it has on a page, and its line of the input if that
 * is kept.  Its place is not 0, which stands for none.
 */
typedef struct Waiting
{
	LaInsertQueue *queue;		/* NULL: has left */
	LaInsertPlace next;			/* of the same queue */
	uint32		length;			/* bytes of the row */
	HeapTupleHeaderData row;
} Waiting;

#define WAITING_HEADER offsetof(Waiting, row)

StaticAssertDecl(WAITING_HEADER == MAXALIGN(WAITING_HEADER),
				 "rows in the pool have places of whole alignments");

/*
 * From now on rows are collected.  Lines of the input are kept when it is known where to find
 * that of a row.  Allocates in the current context.
 */
void
la_insert_partitions_collect(LaInsertRoute *route)
{
	LaInsertPool *pool = palloc0_object(LaInsertPool);

	pool->size = FIRST_SIZE;
	pool->limit = Min(work_mem * (Size) 1024,
					  PG_UINT32_MAX * (Size) MAXIMUM_ALIGNOF);
	pool->memory = palloc(pool->size);
	pool->used = MAXIMUM_ALIGNOF;
	pool->line = route->common->line;
	route->pool = pool;
	la_insert_route_collect(route);
}

static Size
waiting_size(const LaInsertPool *pool, Size length)
{
	Size		size = WAITING_HEADER + MAXALIGN(length);

	return pool->line == NULL ? size : size + sizeof(uint64);
}

static uint64 *
line_of(Waiting *waiting)
{
	return (uint64 *) ((char *) &waiting->row + MAXALIGN(waiting->length));
}

static Waiting *
waiting_at(const LaInsertPool *pool, LaInsertPlace place)
{
	return (Waiting *) (pool->memory + place * (Size) MAXIMUM_ALIGNOF);
}

/*
 * The row at the end of what is used becomes the last of its queue.
 */
static void
append_to_queue(LaInsertPool *pool, Waiting *waiting)
{
	LaInsertQueue *queue = waiting->queue;
	LaInsertPlace place = pool->used / MAXIMUM_ALIGNOF;

	if (queue->first == 0)
		queue->first = place;
	else
		waiting_at(pool, queue->last)->next = place;
	queue->last = place;
	pool->used += waiting_size(pool, waiting->length);
}

/*
 * Has a row of the queue's partition wait, where there is room for it.
 */
static LaInsertRoom
let_wait(LaInsertPool *pool, LaInsertQueue *queue, TupleTableSlot *slot)
{
	LaInsertRow row;
	Waiting    *waiting;

	if (!la_insert_row_measure(&row, slot))
		return LA_INSERT_WIDE;
	if (pool->used + waiting_size(pool, row.length) > pool->size)
		return LA_INSERT_FULL;
	waiting = (Waiting *) (pool->memory + pool->used);
	memset(waiting, 0, waiting_size(pool, row.length));
	if (!la_insert_row_form(&row, &waiting->row))
		return LA_INSERT_WIDE;
	waiting->queue = queue;
	waiting->length = row.length;
	if (pool->line != NULL)
		*line_of(waiting) = *pool->line;
	append_to_queue(pool, waiting);
	queue->rows++;
	queue->bytes += MAXALIGN(row.length) + sizeof(ItemIdData);
	return LA_INSERT_ADDED;
}

/*
 * Rows of a partition lie far apart: the processor's cache has the next one in time.
 */
static inline void
fetch_ahead(const Waiting *waiting)
{
#ifdef __GNUC__
	__builtin_prefetch(waiting);
	__builtin_prefetch((const char *) waiting + PG_CACHE_LINE_SIZE / 2);
#endif
}

/*
 * Collects as many rows of a partition as fit on a page, one at least.
 */
static void
fill_page(LaInsertPool *pool, LaInsertTarget *target)
{
	LaInsertBatch *batch = target->common->batch;
	LaInsertQueue *queue = &target->queue;

	CHECK_FOR_INTERRUPTS();
	while (queue->rows > 0)
	{
		Waiting    *waiting = waiting_at(pool, queue->first);

		fetch_ahead(waiting_at(pool, waiting->next));
		if (pool->line != NULL)
			batch->image.line = line_of(waiting);
		if (la_insert_image_add_tuple(&batch->image, batch->spare, &waiting->row,
									  waiting->length) == LA_INSERT_FULL)
			return;
		waiting->queue = NULL;
		queue->first = waiting->next;
		queue->rows--;
		queue->bytes -= MAXALIGN(waiting->length) + sizeof(ItemIdData);
	}
}

/*
 * Moves all rows together.  They stay in order, so that the links can be made anew.
 */
static void
compact_pool(LaInsertPool *pool)
{
	Size		end = pool->used;
	Size		size;

	pool->used = MAXIMUM_ALIGNOF;
	for (Size at = pool->used; at < end; at += size)
	{
		Waiting    *waiting = (Waiting *) (pool->memory + at);
		LaInsertQueue *queue = waiting->queue;

		size = waiting_size(pool, waiting->length);
		if (queue == NULL)
			continue;
		if (queue->first == at / MAXIMUM_ALIGNOF)
			queue->first = 0;
		waiting->next = 0;
		waiting = memmove(pool->memory + pool->used, waiting, size);
		append_to_queue(pool, waiting);
	}
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
 * So many pages of a partition will be filled now.
 */
static void
expect_pages(const LaInsertRoute *route, LaInsertTarget *target, uint32 pages)
{
	la_insert_target_expect(target, pages, PAGES_AHEAD / route->count);
}

/*
 * Inserts rows of a partition as long as they fill pages; and those that are left, where core
 * finds room, if all are to be inserted.
 */
static void
flush_queue(LaInsertRoute *route, LaInsertTarget *target, bool all)
{
	Size		room = page_room(target);

	la_insert_batch_retarget(target->common->batch,
							 target->relation->ri_RelationDesc);
	while (target->queue.bytes > room)
	{
		expect_pages(route, target, target->queue.bytes / room);
		fill_page(route->pool, target);
		la_insert_target_flush_page(target);
	}
	if (all)
		expect_pages(route, target, 1);
	while (all && target->queue.rows > 0)
	{
		fill_page(route->pool, target);
		la_insert_target_flush_rest(target);
	}
	la_insert_target_unpin(target);
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
		flush_queue(route, route->targets[i], true);
	route->waiting = 0;
	compact_pool(route->pool);
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
 * Inserts all rows that fill pages.  If more than half of the bytes still wait after that,
 * partitions are emptied, those first that had the most rows.  Then the partitions that have rows
 * come first in route->targets again.
 */
static void
make_room(LaInsertRoute *route)
{
	LaInsertTarget **targets = route->targets;
	Size		waiting = 0;
	Size		left = 0;
	int			count = 0;

	qsort(targets, route->waiting, sizeof(LaInsertTarget *), compare_waiting);
	for (int i = 0; i < route->waiting; i++)
	{
		waiting += targets[i]->queue.bytes;
		if (targets[i]->queue.bytes > page_room(targets[i]))
			flush_queue(route, targets[i], false);
		left += targets[i]->queue.bytes;
	}
	for (int i = 0; i < route->waiting && left > waiting / 2; i++)
	{
		left -= targets[i]->queue.bytes;
		flush_queue(route, targets[i], true);
	}
	for (int i = 0; i < route->waiting; i++)
	{
		LaInsertTarget *target = targets[i];

		target->number = i;
		if (target->queue.rows == 0)
			continue;
		targets[i] = targets[count];
		targets[i]->number = i;
		targets[count] = target;
		target->number = count++;
	}
	route->waiting = count;
	compact_pool(route->pool);
}

/*
 * Adds a row of a partition to those that wait, in a pool that gets twice as much memory as long
 * as there may be more.
 */
void
la_insert_partitions_add(LaInsertRoute *route, LaInsertTarget *target,
						 TupleTableSlot *row)
{
	LaInsertPool *pool = route->pool;
	LaInsertRoom room;

	while ((room = let_wait(pool, &target->queue, row)) == LA_INSERT_FULL)
	{
		if (pool->size < Min(route->count * BYTES_OF_EACH, pool->limit))
		{
			pool->size = Min(2 * pool->size, pool->limit);
			pool->memory = repalloc_huge(pool->memory, pool->size);
		}
		else
			make_room(route);
	}
	if (room == LA_INSERT_WIDE)
	{
		/*
		 * Its values must be toasted, or it is too long: core inserts it,
		 * after those before it.  It extends a table page by page where there
		 * are more than a few.
		 */
		if (target->queue.rows > 0 || route->count > PAGES_AHEAD / PAGES_OF_CORE)
			flush_queue(route, target, true);
		la_insert_target_insert(target, row);
		la_insert_target_unpin(target);
		target->common->bytes += TOAST_TUPLE_TARGET;
	}
	else if (target->number >= route->waiting)
	{
		LaInsertTarget *other = route->targets[route->waiting];

		route->targets[target->number] = other;
		other->number = target->number;
		route->targets[route->waiting] = target;
		target->number = route->waiting++;
	}
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
