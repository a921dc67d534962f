/*-------------------------------------------------------------------------
 *
 * la_insert_extent.c
 *	  pages by which a table was extended in bulk
 *
 * A table grows by empty pages that are in the file and in nobody's free space map,
 * one after another under one extension lock; then one of them after the other is
 * filled.  None stays pinned meanwhile.  Another session can find such a page (by
 * VACUUM, which enters it in the map) and fill it: then we take the next.  VACUUM does
 * not truncate them while we hold our lock on the table.  What is left when the
 * insert ends goes to the map; after an error VACUUM finds it, and a step is
 * bounded by what the insert has filled, so that a failed one leaves at most an eighth
 * more than PostgreSQL's would.
 *
 * Where a table has room on other pages, as its free space map says, that is used
 * first, and by core.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/freespace.h"
#include "storage/lmgr.h"

#include "bulk_insert/la_insert_feature.h"
#include "bulk_insert/page/la_insert_extent.h"
#include "la_try.h"

/*
 * Least number of pages to extend a table by that takes all rows of an insert: what core
 * extends one by at most, its MAX_BUFFERS_TO_EXTEND_BY.
 */
#define LEAST_STEP 64

/* A step is so many times smaller than what the insert has filled. */
#define SHARE 8

/* Pages of one call of ExtendBufferedRelBy(), which may do fewer: arbitrary. */
#define MAX_PIECE 512

/*
 * An extent of no pages.  The strategy may be shared with others.
 */
void
la_insert_extent_begin(LaInsertExtent *extent, Relation table,
					   LaCounters *counters, BufferAccessStrategy *strategy)
{
	memset(extent, 0, sizeof(*extent));
	extent->table = table;
	extent->counters = counters;
	extent->strategy = strategy;
	extent->least_step = LEAST_STEP;
	extent->most_step = PG_UINT32_MAX;
}

/*
 * So many pages, one at least, will be filled now; nobody knows whether there will be more.
 * More than so many others would be gone from shared buffers when their turn comes.
 */
void
la_insert_extent_expect(LaInsertExtent *extent, uint32 pages, uint32 most)
{
	extent->least_step = pages;
	extent->most_step = Max(pages, most);
}

/*
 * Has the table room for a row of this length on another page?  What the free space map
 * says is looked at, and corrected: core enters pages by which it has extended a table in
 * bulk, and fills them without taking them out.  Mirrors RelationGetBufferForTuple() in hio.c.
 */
static bool
has_room_elsewhere(LaInsertExtent *extent, Size row_length)
{
	BlockNumber block = GetPageWithFreeSpace(extent->table, row_length);

	while (BlockNumberIsValid(block))
	{
		Buffer		buffer = ReadBufferExtended(extent->table, MAIN_FORKNUM, block,
												RBM_NORMAL, *extent->strategy);
		Page		page = BufferGetPage(buffer);
		Size		room;

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		room = PageIsNew(page) ? BLCKSZ - SizeOfPageHeaderData :
			PageGetHeapFreeSpace(page);
		UnlockReleaseBuffer(buffer);
		if (room >= row_length)
			return true;
		CHECK_FOR_INTERRUPTS();
		block = RecordAndGetPageWithFreeSpace(extent->table, block, room,
											  row_length);
	}
	return false;
}

/*
 * Work that is tried: extends the table by the pages that are wanted, in a row.  After an error
 * those that it has got are the extent's all the same.
 *
 * The free space map gets its room first, so that what is left of the pages can be entered
 * when the disk is full.
 */
static void
extend_table(void *arg)
{
	LaInsertExtent *extent = arg;
	uint32		blocks = extent->wanted;
	Relation	table = extent->table;
	bool		shared = !RelationUsesLocalBuffers(table);

	if (shared)
		LockRelationForExtension(table, ExclusiveLock);
	extent->next = extent->end = RelationGetNumberOfBlocks(table);
	RecordPageWithFreeSpace(table, extent->end + blocks - 1, 0);
	for (uint32 done = 0; done < blocks;)
	{
		Buffer		buffers[MAX_PIECE];
		uint32		extended;

		/* As many of them as may be pinned at once. */
		ExtendBufferedRelBy(BMR_REL(table), MAIN_FORKNUM, *extent->strategy,
							EB_SKIP_EXTENSION_LOCK, Min(blocks - done, MAX_PIECE),
							buffers, &extended);
		for (uint32 i = 0; i < extended; i++)
			ReleaseBuffer(buffers[i]);
		done += extended;
		extent->end += extended;
		extent->counters->extended += extended;
	}
	if (shared)
		UnlockRelationForExtension(table, ExclusiveLock);
}

/*
 * False when there is no new page.  What a failed extension holds is released with the resource
 * owner of the try.  Errors that say that somebody wants this statement to end, or that it
 * cannot get the lock, are thrown on.  Others say that so many pages are too many, by various
 * codes: relies on errcode_for_file_access() in elog.c, which has one for a full disk, but none
 * for a quota.
 */
static bool
try_to_extend(LaInsertExtent *extent, uint32 blocks)
{
	ErrorData  *error;
	int			category;

	extent->wanted = blocks;
	error = la_try(extend_table, extent);
	if (error == NULL)
		return true;
	category = ERRCODE_TO_CATEGORY(error->sqlerrcode);
	if (category == ERRCODE_OPERATOR_INTERVENTION ||
		category == ERRCODE_TRANSACTION_ROLLBACK ||
		category == ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE)
		ReThrowError(error);
	FreeErrorData(error);
	return extent->next < extent->end;
}

/*
 * Extends the table.  When that fails tries fewer pages; false when there is no room for
 * any, which core will find out again and say.
 */
static bool
reserve_pages(LaInsertExtent *extent, uint32 blocks)
{
	bool		done = false;

	if (*extent->strategy == NULL)
		*extent->strategy = GetAccessStrategy(BAS_BULKWRITE);
	for (; !done && blocks > 0; blocks /= 8)
		done = try_to_extend(extent, blocks);
	extent->no_room = !done;
	extent->passed = false;
	if (done)
		extent->counters->extensions++;
	return done;
}

/*
 * By how many pages to extend the table.
 */
static uint32
next_step(const LaInsertExtent *extent)
{
	uint32		blocks = extent->filled / SHARE;

#ifdef LA_TEST
	if (la_test_insert_threshold >= 0)
		return la_bulk_extend_size;
#endif
	blocks = Min(Max(blocks, extent->least_step), extent->most_step);
	return Min(blocks, la_bulk_extend_size);
}

/*
 * Is there an empty page of ours for a full page of rows?  Extends the table where none is left.
 * None when the setting says so, when there was no room for more, when there can be no
 * subtransactions, and when the table has room elsewhere for a row of this length.
 */
bool
la_insert_extent_ensure(LaInsertExtent *extent, Size row_length)
{
	if (extent->next < extent->end)
		return true;
	if (la_bulk_extend_size == 0 || extent->no_room || IsInParallelMode())
		return false;
	if (has_room_elsewhere(extent, row_length))
		return false;
	return reserve_pages(extent, next_step(extent));
}

/*
 * The next empty page of ours, exclusively locked; InvalidBuffer when others have
 * taken all that were left.
 */
Buffer
la_insert_extent_take(LaInsertExtent *extent)
{
	while (extent->next < extent->end)
	{
		Buffer		buffer = ReadBufferExtended(extent->table, MAIN_FORKNUM,
												extent->next++, RBM_NORMAL,
												*extent->strategy);

		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		if (PageIsNew(BufferGetPage(buffer)))
		{
			extent->filled++;
			return buffer;
		}
		UnlockReleaseBuffer(buffer);
	}
	return InvalidBuffer;
}

/*
 * One empty page that is not part of any extent, exclusively locked.
 */
Buffer
la_insert_extent_single(LaInsertExtent *extent)
{
	return ExtendBufferedRel(BMR_REL(extent->table), MAIN_FORKNUM,
							 *extent->strategy, EB_LOCK_FIRST);
}

/*
 * Core inserts next: behind the pages of ours, if any are filled.  Otherwise it would go on with a
 * page that it has begun before them, and rows would lie before others that came earlier.  The page
 * that it begins now it fills, until there are more of ours.
 */
void
la_insert_extent_pass(LaInsertExtent *extent)
{
	if (extent->filled == 0 || extent->passed)
		return;
	RelationSetTargetBlock(extent->table, extent->next - 1);
	extent->passed = true;
}

/*
 * The insert is over: what is left of its pages is for everybody.
 */
void
la_insert_extent_end(LaInsertExtent *extent)
{
	for (BlockNumber block = extent->next; block < extent->end; block++)
		RecordPageWithFreeSpace(extent->table, block,
								BLCKSZ - SizeOfPageHeaderData);
	if (extent->next < extent->end)
		FreeSpaceMapVacuumRange(extent->table, extent->next, extent->end);
	extent->next = extent->end;
}
