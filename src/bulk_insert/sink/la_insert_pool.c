/*-------------------------------------------------------------------------
 *
 * la_insert_pool.c
 *	  rows of several tables that wait for their insertion
 *
 * Where rows go to many tables in turn, there is no memory for a page of each.  So they
 * lie one after another in one piece of memory, as they come, each with a link to the
 * next one of its table.  Room that rows have left is regained by moving the others
 * together.  The memory grows up to work_mem.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "bulk_insert/sink/la_insert_pool.h"

/* Bytes of memory at first: arbitrary. */
#define FIRST_SIZE (32 * 1024)

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

/*
 * A pool of no rows, in the current memory context.  Lines of the input are kept when it is
 * told where to find that of a row.
 */
LaInsertPool *
la_insert_pool_begin(const uint64 *line)
{
	LaInsertPool *pool = palloc0_object(LaInsertPool);

	pool->size = FIRST_SIZE;
	pool->limit = Min(work_mem * (Size) 1024,
					  PG_UINT32_MAX * (Size) MAXIMUM_ALIGNOF);
	pool->memory = palloc(pool->size);
	pool->used = MAXIMUM_ALIGNOF;
	pool->line = line;
	return pool;
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
append(LaInsertPool *pool, Waiting *waiting)
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
 * Adds a row of the queue's table.  The pool may have to grow, or rows to leave and others to
 * be moved together, first (LA_INSERT_FULL).
 */
LaInsertRoom
la_insert_pool_add(LaInsertPool *pool, LaInsertQueue *queue,
				   TupleTableSlot *slot)
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
	append(pool, waiting);
	queue->rows++;
	queue->bytes += MAXALIGN(row.length) + sizeof(ItemIdData);
	pool->rows++;
	return LA_INSERT_ADDED;
}

/*
 * Frees the pool, in which no rows wait.
 */
void
la_insert_pool_end(LaInsertPool *pool)
{
	Assert(pool->rows == 0);
	pfree(pool->memory);
	pfree(pool);
}

/*
 * Gets twice as much memory, if there is less than so many bytes and there may be more.
 */
bool
la_insert_pool_grow(LaInsertPool *pool, Size wanted)
{
	if (pool->size >= Min(wanted, pool->limit))
		return false;
	pool->size = Min(2 * pool->size, pool->limit);
	pool->memory = repalloc_huge(pool->memory, pool->size);
	return true;
}

/*
 * Moves the first row of a queue, which has one, to a batch for the queue's table.
 */
LaInsertRoom
la_insert_pool_move_first(LaInsertPool *pool, LaInsertQueue *queue,
						  LaInsertBatch *batch)
{
	Waiting    *waiting = waiting_at(pool, queue->first);

	if (pool->line != NULL)
		batch->image.line = line_of(waiting);
	if (la_insert_image_add_tuple(&batch->image, batch->spare, &waiting->row, waiting->length) ==
		LA_INSERT_FULL)
		return LA_INSERT_FULL;
	waiting->queue = NULL;
	queue->first = waiting->next;
	queue->rows--;
	queue->bytes -= MAXALIGN(waiting->length) + sizeof(ItemIdData);
	pool->rows--;
	return LA_INSERT_ADDED;
}

/*
 * Moves all rows together.  They stay in order, so that the links can be made anew.
 */
void
la_insert_pool_compact(LaInsertPool *pool)
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
		append(pool, waiting);
	}
}
