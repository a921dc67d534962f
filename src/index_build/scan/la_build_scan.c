/*-------------------------------------------------------------------------
 *
 * la_build_scan.c
 *	  reads a table for an index build
 *
 * Which rows of a table an index must contain is decided by core, row by row.
 * This mirrors heapam_index_build_range_scan() in heapam_handler.c for most of
 * them, and relies on heapam_index_build_range_scan() in heapam_handler.c for
 * the others.  Most pages of most tables are simple: every row on them is live, or
 * dead to everybody.  Those pages are read here, and all the others are left
 * to core's function, in runs of adjacent pages, so that rows that were
 * recently deleted, are being inserted by others, or belong to a broken HOT chain are
 * entirely core's business.
 *
 * A page is simple if, under its content lock, it is marked all-visible on the page
 * itself, or HeapTupleSatisfiesVacuum() says LIVE or DEAD for each row, or that this
 * transaction is inserting it, which is what core's function would ask as well.  (Its
 * other answers are what makes a page not simple.)  Hint bits mostly spare the call.
 * The root of a heap-only row is found by heap_get_root_tuples(), as in
 * core.
 *
 * The lock is held only while that is decided.  The pin then keeps the rows
 * where they are, as in core, while expressions and predicates are evaluated
 * and values are detoasted, which may run any code.
 *
 * A concurrent build leaves all pages to core, in one scan of core's for each process.
 * Reading them here would spare a twentieth of what the statement takes.
 *
 * Several processes can share a scan; each adds its rows to a sort of its own.
 * The scan is never synchronised with others: to each process rows come in
 * the order of their TIDs except within HOT chains.
 *
 * Reads PgStat_TableStatus of pgstat.h, HeapScanDescData of heapam.h, and TableScanDescData,
 * ParallelBlockTableScanDescData and ParallelBlockTableScanWorkerData of relscan.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "access/tupmacs.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "commands/progress.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "storage/read_stream.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "index_build/scan/la_build_scan.h"

/*
 * Most pages that are left to core together after we have read them; starting core's
 * scan costs about as much as reading one page.  Core reads them again.  Of a table so
 * large that both scans use rings of buffers, about half are not in shared buffers any
 * more by then, because our stream is ahead by nearly a whole ring.
 */
#define RUN_BLOCKS 64

/*
 * Steps that each process takes if all are equally fast, which is how well
 * the work of the slowest is spread; and most blocks of a step, beyond which
 * the sizes of requests do not grow.  Arbitrary.
 */
#define STEPS_PER_PROCESS 32
#define MAX_STEP_BLOCKS 1024

/*
 * Rows whose headers are asked for before they are looked at: the page has been
 * filled by another process, so that none of it is in this processor's cache.
 * Arbitrary, as many as are looked at during one cache miss.
 */
#define PREFETCH_ROWS 24

typedef struct BuildScan
{
	Relation	heap;
	Relation	index;
	IndexInfo  *info;
	LaSort	   *sort;

	TransactionId oldest_xmin;
	double		live_rows;

	TableScanDesc pages;		/* core's scan, while it is under way */

	/* Blocks to be read: of the step that was taken last, then of others. */
	LaScanShare *share;
	BlockNumber next_block;
	BlockNumber end_block;

	/* Run of pages to be left to core: from run_start, run_blocks of them. */
	BlockNumber run_start;
	int			run_blocks;
	BlockNumber row_block;		/* page of the last row that came from there */

	/* Simple index: one column of a fixed size at a fixed offset, or -1. */
	int			fixed_offset;
	CompactAttribute fixed_column;
	bool		plain_column;	/* one, no expression, no predicate */

	EState	   *estate;
	ExprState  *predicate;
	TupleTableSlot *slot;

	/* Rows to be indexed on the current page. */
	int			nrows;
	OffsetNumber rows[MaxHeapTuplesPerPage];
	bool		has_heap_only;
	OffsetNumber roots[MaxHeapTuplesPerPage];
} BuildScan;

/*
 * Prepares the scan of a table by a number of processes.
 */
void
la_build_scan_share_init(LaScanShare *share, Relation heap, int nprocesses)
{
	share->nblocks = RelationGetNumberOfBlocks(heap);
	share->step_blocks = nprocesses == 1 ? Max(share->nblocks, 1) :
		Min(Max(share->nblocks / (nprocesses * STEPS_PER_PROCESS), 1),
			MAX_STEP_BLOCKS);
	pg_atomic_init_u64(&share->next_block, 0);
}

/*
 * Takes a row into the collection if it is live.  False if it is for core to
 * decide what it is.
 */
static inline bool
collect_row(BuildScan *scan, Buffer buffer, OffsetNumber offset,
			bool all_visible)
{
	Page		page = BufferGetPage(buffer);
	ItemId		item = PageGetItemId(page, offset);
	HeapTupleHeader row;

	if (!ItemIdIsNormal(item))
		return true;
	row = (HeapTupleHeader) PageGetItem(page, item);

	/* Both bits together say committed, as HeapTupleSatisfiesVacuum() has it. */
	if (!all_visible &&
		(row->t_infomask & (HEAP_XMIN_COMMITTED | HEAP_XMAX_INVALID)) !=
		(HEAP_XMIN_COMMITTED | HEAP_XMAX_INVALID))
	{
		HeapTupleData tuple;

		tuple.t_data = row;
		tuple.t_len = ItemIdGetLength(item);
		tuple.t_tableOid = RelationGetRelid(scan->heap);
		ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buffer), offset);
		switch (HeapTupleSatisfiesVacuum(&tuple, scan->oldest_xmin, buffer))
		{
			case HEAPTUPLE_LIVE:
				break;
			case HEAPTUPLE_DEAD:
				return true;
			case HEAPTUPLE_INSERT_IN_PROGRESS:
				if (!TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(row)))
					return false;
				break;
			default:
				return false;
		}
	}

	scan->has_heap_only |= HeapTupleHeaderIsHeapOnly(row);
	scan->rows[scan->nrows++] = offset;
	return true;
}

/*
 * Decides whether a page is simple (see the head of this file) and collects
 * the rows that are to be indexed.  The caller has the page pinned.
 */
static bool
collect_rows(BuildScan *scan, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	bool		simple = true;
	bool		all_visible;
	OffsetNumber last;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	all_visible = PageIsAllVisible(page);
	last = PageGetMaxOffsetNumber(page);
	scan->nrows = 0;
	scan->has_heap_only = false;

	for (OffsetNumber offset = FirstOffsetNumber; simple && offset <= last;
		 offset++)
	{
		if (offset + PREFETCH_ROWS <= last)
			__builtin_prefetch((char *) page +
							   ItemIdGetOffset(PageGetItemId(page, offset + PREFETCH_ROWS)));
		simple = collect_row(scan, buffer, offset, all_visible);
	}

	if (simple && scan->has_heap_only)
	{
		heap_get_root_tuples(page, scan->roots);
		for (int i = 0; simple && i < scan->nrows; i++)
		{
			HeapTupleHeader row = (HeapTupleHeader)
				PageGetItem(page, PageGetItemId(page, scan->rows[i]));

			/* core's function reports this corruption */
			if (HeapTupleHeaderIsHeapOnly(row))
				simple = OffsetNumberIsValid(scan->roots[scan->rows[i] - 1]);
		}
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return simple;
}

/*
 * Adds the row at `offset` of a page, whose HOT chain begins at `root`, if it satisfies the
 * predicate of a partial index.
 */
static void
index_row(BuildScan *scan, Buffer buffer, OffsetNumber offset,
		  OffsetNumber root)
{
	IndexInfo  *info = scan->info;
	Page		page = BufferGetPage(buffer);
	ItemId		item = PageGetItemId(page, offset);
	HeapTupleData row;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	row.t_tableOid = RelationGetRelid(scan->heap);
	row.t_data = (HeapTupleHeader) PageGetItem(page, item);
	row.t_len = ItemIdGetLength(item);
	ItemPointerSet(&row.t_self, BufferGetBlockNumber(buffer), offset);
	if (scan->plain_column)
		values[0] = heap_getattr(&row, info->ii_IndexAttrNumbers[0],
								 RelationGetDescr(scan->heap), &isnull[0]);
	else
	{
		MemoryContextReset(GetPerTupleMemoryContext(scan->estate));
		ExecStoreBufferHeapTuple(&row, scan->slot, buffer);
		if (scan->predicate != NULL &&
			!ExecQual(scan->predicate, GetPerTupleExprContext(scan->estate)))
			return;
		FormIndexDatum(info, scan->slot, scan->estate, values, isnull);
	}
	ItemPointerSetOffsetNumber(&row.t_self, root);
	la_build_collect_add(scan->sort, &row.t_self, values, isnull, true);
}

/*
 * Adds the collected rows of a page, which is pinned and not locked: values at
 * the fixed offset together, other rows one by one, in their order.
 */
static void
index_rows(BuildScan *scan, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	BlockNumber block = BufferGetBlockNumber(buffer);
	Datum		values[MaxHeapTuplesPerPage];
	uint64		places[MaxHeapTuplesPerPage];
	int			nvalues = 0;

	for (int i = 0; i < scan->nrows; i++)
	{
		OffsetNumber offset = scan->rows[i];
		ItemId		item = PageGetItemId(page, offset);
		HeapTupleHeader row = (HeapTupleHeader) PageGetItem(page, item);
		OffsetNumber root = HeapTupleHeaderIsHeapOnly(row) ?
			scan->roots[offset - 1] : offset;

		if (scan->fixed_offset >= 0 && (row->t_infomask & HEAP_HASNULL) == 0 &&
			HeapTupleHeaderGetNatts(row) >= scan->info->ii_IndexAttrNumbers[0])
		{
			values[nvalues] = fetchatt(&scan->fixed_column,
									   (char *) row + row->t_hoff + scan->fixed_offset);
			places[nvalues++] = la_build_place_of(block, root, true);
			continue;
		}
		la_build_collect_add_values(scan->sort, values, places, nvalues);
		nvalues = 0;
		index_row(scan, buffer, offset, root);
	}
	la_build_collect_add_values(scan->sort, values, places, nvalues);

	scan->live_rows += scan->nrows;
	if (pgstat_should_count_relation(scan->heap))
		scan->heap->pgstat_info->counts.tuples_returned += scan->nrows;
	ExecClearTuple(scan->slot);
}

/*
 * Keeps to the memory that there is, when all pages before a block have been read.
 */
static void
limit_memory(BuildScan *scan, BlockNumber block)
{
	la_build_collect_limit_memory(scan->sort, (double) block / scan->share->nblocks);
}

/*
 * Ends core's scan early, because core has to build the index: after the pages that have
 * been asked for already, and in other processes after the chunk that each took last.  Relies on
 * heapgettup_advance_block() in heapam.c and table_block_parallelscan_nextpage() in tableam.c.
 */
static void
end_scan_of_core(BuildScan *scan)
{
	HeapScanDesc own = (HeapScanDesc) scan->pages;
	ParallelBlockTableScanDesc shared = (ParallelBlockTableScanDesc) scan->pages->rs_parallel;

	if (shared != NULL)
	{
		pg_atomic_fetch_add_u64(&shared->phs_nallocated, shared->phs_nblocks);
		own->rs_parallelworkerdata->phsw_chunk_remaining = 0;
	}
	else
		own->rs_numblocks = 1;
}

/*
 * IndexBuildCallback of core's function, which has the row's page pinned but not
 * locked.  A run of pages may have many times the memory that there is.
 */
static void
add_row(Relation index, ItemPointer tid, Datum *values, bool *isnull,
		bool alive, void *state)
{
	BuildScan  *scan = state;
	BlockNumber block = ItemPointerGetBlockNumber(tid);

	if (block != scan->row_block)
	{
		limit_memory(scan, block);
		if (scan->sort->reason != LA_REASON_NONE)
			end_scan_of_core(scan);
	}
	scan->row_block = block;
	la_build_collect_add(scan->sort, tid, values, isnull, alive);
}

/*
 * Has core's function add the rows of a scan that has begun, and ends it.
 */
static void
leave_to_core(BuildScan *scan, TableScanDesc pages, bool progress)
{
	List	   *expressions = scan->info->ii_ExpressionsState;

	/* core's function prepares expressions of its own, and forgets them */
	scan->info->ii_ExpressionsState = NIL;
	scan->pages = pages;
	scan->live_rows +=
		table_index_build_range_scan(scan->heap, scan->index, scan->info,
									 true, false, progress, 0,
									 InvalidBlockNumber, add_row, scan, pages);
	scan->info->ii_ExpressionsState = expressions;
}

/*
 * Has core's function scan the run of pages that are not simple.  It is
 * given a scan that we began, and told that it is a synchronised one so that
 * it leaves the limits alone.
 */
static void
leave_run_to_core(BuildScan *scan)
{
	TableScanDesc pages;

	if (scan->run_blocks == 0)
		return;
	pages = table_beginscan_strat(scan->heap, SnapshotAny, 0, NULL, true, false);
	heap_setscanlimits(pages, scan->run_start, scan->run_blocks);
	leave_to_core(scan, pages, false);
	limit_memory(scan, scan->run_start + scan->run_blocks);
	scan->run_blocks = 0;
}

/*
 * ReadStreamBlockNumberCB: the next block of the step, or of the next step.
 */
static BlockNumber
take_block(ReadStream *stream, void *callback_private_data,
		   void *per_buffer_data)
{
	BuildScan  *scan = callback_private_data;
	LaScanShare *share = scan->share;

	if (scan->next_block == scan->end_block)
	{
		uint64		first = pg_atomic_fetch_add_u64(&share->next_block,
													share->step_blocks);

		if (first >= share->nblocks)
			return InvalidBlockNumber;
		scan->next_block = first;
		scan->end_block = Min(first + share->step_blocks, share->nblocks);
	}
	return scan->next_block++;
}

/*
 * Visits the pages in order.
 */
static void
scan_pages(BuildScan *scan)
{
	BlockNumber nblocks = scan->share->nblocks;
	BufferAccessStrategy strategy = NULL;
	ReadStream *stream;
	Buffer		buffer;

	/* mirrors the rule of initscan() in heapam.c */
	if (!RelationUsesLocalBuffers(scan->heap) && nblocks > NBuffers / 4)
		strategy = GetAccessStrategy(BAS_BULKREAD);
	stream = read_stream_begin_relation(READ_STREAM_SEQUENTIAL |
										READ_STREAM_USE_BATCHING,
										strategy, scan->heap, MAIN_FORKNUM,
										take_block, scan, 0);

	while (scan->sort->reason == LA_REASON_NONE &&
		   (buffer = read_stream_next_buffer(stream, NULL)) != InvalidBuffer)
	{
		BlockNumber block = BufferGetBlockNumber(buffer);
		bool		simple;

		CHECK_FOR_INTERRUPTS();
		simple = collect_rows(scan, buffer);
		if (simple || block != scan->run_start + scan->run_blocks)
			leave_run_to_core(scan);
		if (simple)
			index_rows(scan, buffer);
		else if (scan->run_blocks++ == 0)
			scan->run_start = block;
		ReleaseBuffer(buffer);
		if (scan->run_blocks == RUN_BLOCKS)
			leave_run_to_core(scan);
		limit_memory(scan, block + 1);
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, block + 1);
	}
	if (scan->sort->reason == LA_REASON_NONE)
		leave_run_to_core(scan);
	else
	{
		/* other processes do not go on, either */
		pg_atomic_fetch_add_u64(&scan->share->next_block, nblocks);
	}
	read_stream_end(stream);
	if (strategy != NULL)
		FreeAccessStrategy(strategy);
}

/*
 * Finds out how the values of the index's columns are got from a row.
 */
static void
prepare_columns(BuildScan *scan)
{
	IndexInfo  *info = scan->info;
	TupleDesc	tupdesc = RelationGetDescr(scan->heap);
	AttrNumber	attnum = info->ii_IndexAttrNumbers[0];
	int			offset = 0;

	scan->estate = CreateExecutorState();
	scan->slot = table_slot_create(scan->heap, NULL);
	GetPerTupleExprContext(scan->estate)->ecxt_scantuple = scan->slot;
	scan->predicate = ExecPrepareQual(info->ii_Predicate, scan->estate);

	scan->plain_column = info->ii_NumIndexAttrs == 1 && attnum > 0 &&
		info->ii_Predicate == NIL;

	/* the offset is the same in all rows whose columns up to here are set */
	scan->fixed_offset = -1;
	if (!scan->plain_column || scan->sort->key->fixed_size == 0)
		return;
	for (int i = 0; i < attnum; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(tupdesc, i);

		offset = att_align_nominal(offset, attribute->attalign);
		if (attribute->attlen <= 0)
			return;
		if (i < attnum - 1)
			offset += attribute->attlen;
	}
	scan->fixed_offset = offset;
	scan->fixed_column = *TupleDescCompactAttr(tupdesc, attnum - 1);
}

/*
 * Adds an entry to `sort` for each row of the table that belongs into the
 * index and that this process comes across.  Returns the number of live rows
 * among them, as core counts them.  In a concurrent build `pages` is the scan that has
 * begun, of which nothing is left then, else NULL.  Ends early if core has to build
 * the index (LaSort.reason).
 */
double
la_build_scan(Relation heap, Relation index, IndexInfo *indexInfo,
			  TableScanDesc pages, LaScanShare *share, LaSort *sort)
{
	BuildScan  *scan = palloc0(sizeof(BuildScan));

	scan->heap = heap;
	scan->index = index;
	scan->info = indexInfo;
	scan->sort = sort;
	scan->share = share;
	if (pages != NULL)
	{
		leave_to_core(scan, pages, true);
		return scan->live_rows;
	}
	scan->oldest_xmin = GetOldestNonRemovableTransactionId(heap);
	prepare_columns(scan);

	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, share->nblocks);
	pgstat_count_heap_scan(heap);
	scan_pages(scan);
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, share->nblocks);

	ExecDropSingleTupleTableSlot(scan->slot);
	FreeExecutorState(scan->estate);
	/* they pointed into the executor state, as in core */
	indexInfo->ii_ExpressionsState = NIL;
	indexInfo->ii_PredicateState = NULL;
	return scan->live_rows;
}
