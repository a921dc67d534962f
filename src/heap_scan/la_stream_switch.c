/*-------------------------------------------------------------------------
 *
 * la_stream_switch.c
 *	  changes the read stream of a bitmap scan in mid-scan
 *
 * Where a part of the bitmap has most of the table's pages, they are read much as
 * in a sequential scan, and asking for them may cost more than it gains
 * (la_trial.c).  So there a trial decides between our way and core's, which is
 * another stream: with asynchronous reads, and without advice.  In a part that has
 * hardly any gaps that stream asks for the same large reads as we would; so it is
 * used without a trial.
 *
 * To change from one to the other, the callback ends the stream in use.  When its
 * pages are used up, the other stream is put in its place.
 *
 * Ours takes the place of core's, with which the scan begins, in the middle of a bitmap.
 * What core's stream has taken from the bitmap's iterator must be used before ours
 * begins.  So the scan is given the iterator of an empty bitmap in the
 * meantime: core's stream delivers what it has, and comes to an end.
 *
 * It is looked now and then how many blocks follow directly on the one before.
 * Each level is left at a lower share than it is reached at, so that a part
 * between two levels does not go to and fro.
 *
 * Reads HeapScanDescData of heapam.h and TableScanDescData of relscan.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/relscan.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "storage/aio.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/spccache.h"

#include "heap_scan/la_stream_switch.h"
#include "prefetch/la_trial.h"

/*
 * How many times as fast our way has to be in a dense part: more than what two
 * measurements of the same way differ by on a quiet machine.
 */
#define ADVICE_FASTER 1.1

/* Reads in flight of core's way, at least: its default. */
#define CORE_READS 16

static void
set_limits(int concurrency, int maintenance)
{
	effective_io_concurrency = concurrency;
	maintenance_io_concurrency = maintenance;
}

/*
 * The kind of stream that obeys our limit, with both settings saying so already.
 * When the tablespace has options of both kinds there is no way round them.
 */
static int
kind_of_stream(Relation relation, int max_ios)
{
	Oid			tablespace = relation->rd_locator.spcOid;

	if (get_tablespace_io_concurrency(tablespace) == max_ios ||
		get_tablespace_maintenance_io_concurrency(tablespace) != max_ios)
		return READ_STREAM_DEFAULT;
	return READ_STREAM_MAINTENANCE;
}

/*
 * Begins a stream with at most max_ios reads in flight (0: each is made by the process
 * itself, when its page is needed), which keeps nothing pinned while it is not in use.
 * Mirrors the arguments of heap_beginscan() in heapam.c.
 *
 * A stream takes its limits from settings when it is created, and keeps them.
 * Options of the tablespace win over the settings, one for ordinary streams and
 * one for those of maintenance; the two kinds differ in nothing else (relies on
 * read_stream_begin_impl() in read_stream.c).
 */
static ReadStream *
begin_stream(LaStreamSwitch *streams, int max_ios)
{
	HeapScanDesc heap = streams->heap;
	Relation	table = heap->rs_base.rs_rd;
	int			saved_concurrency = effective_io_concurrency;
	int			saved_maintenance = maintenance_io_concurrency;
	MemoryContext old_context = MemoryContextSwitchTo(streams->context);
	ReadStream *stream;

	PG_TRY();
	{
		set_limits(max_ios, max_ios);
		stream = read_stream_begin_relation(kind_of_stream(table, max_ios) | READ_STREAM_USE_BATCHING,
											heap->rs_strategy, table, MAIN_FORKNUM,
											streams->callback, streams->callback_data,
											sizeof(TBMIterateResult));
	}
	PG_CATCH();
	{
		set_limits(saved_concurrency, saved_maintenance);
		PG_RE_THROW();
	}
	PG_END_TRY();
	set_limits(saved_concurrency, saved_maintenance);
	MemoryContextSwitchTo(old_context);
	return stream;
}

/*
 * Prepares the first of our streams, which reads nothing ahead by itself: advice does.
 * la_stream_switch_begin() puts it in the place of core's, la_stream_switch_start() begins
 * a bitmap.
 */
void
la_stream_switch_init(LaStreamSwitch *streams, HeapScanDesc heap,
					  MemoryContext context,
					  ReadStreamBlockNumberCB callback, void *callback_data)
{
	streams->heap = heap;
	streams->context = context;
	streams->callback = callback;
	streams->callback_data = callback_data;
	streams->kind = LA_STREAM_ADVISED;
	streams->streams[streams->kind] = begin_stream(streams, 0);
}

void
la_stream_switch_begin(LaStreamSwitch *streams)
{
	read_stream_end(streams->heap->rs_read_stream);
	streams->heap->rs_read_stream = streams->streams[LA_STREAM_ADVISED];
}

void
la_stream_switch_start(LaStreamSwitch *streams)
{
	streams->changing = false;
	/* As long as nothing is known, a bitmap counts as sparse. */
	streams->density = (LaDensity)
	{
		.last_block = InvalidBlockNumber,.level = LA_DENSITY_SPARSE
	};
}

/*
 * The scan has been woken: a trial that was under way would have measured the time of
 * its sleep, too.
 */
void
la_stream_switch_woken(LaStreamSwitch *streams)
{
	if (streams->density.level == LA_DENSITY_DENSE)
		la_trial_start(&streams->trial, ADVICE_FASTER, 1, 1);
}

/*
 * The stream that the next page should come from.
 */
LaStreamKind
la_stream_switch_choose(LaStreamSwitch *streams)
{
	switch (streams->density.level)
	{
		case LA_DENSITY_SPARSE:
			break;
		case LA_DENSITY_DENSE:
			return la_trial_pages(&streams->trial, 1) ? LA_STREAM_ADVISED : LA_STREAM_CORE;
		case LA_DENSITY_SOLID:
			return LA_STREAM_CORE;
	}
	return LA_STREAM_ADVISED;
}

/*
 * The stream in use has been used up: puts the other one in its place.  It is
 * reset, or it would stay at its end when its turn comes again.
 */
void
la_stream_switch_change(LaStreamSwitch *streams)
{
	LaStreamKind wanted = streams->kind == LA_STREAM_CORE ?
		LA_STREAM_ADVISED : LA_STREAM_CORE;

	streams->changing = false;
	if (streams->streams[wanted] == NULL)
		streams->streams[wanted] = begin_stream(streams,
												Max(effective_io_concurrency, CORE_READS));
	read_stream_reset(streams->streams[streams->kind]);
	streams->heap->rs_read_stream = streams->streams[wanted];
	streams->kind = wanted;
}

/*
 * Has core's stream come to its end.
 */
void
la_take_over_begin(LaTakeOver *take_over, TableScanDesc scan,
				   MemoryContext context)
{
	MemoryContext old_context = MemoryContextSwitchTo(context);

	take_over->nothing = tbm_create(work_mem * (Size) 1024, NULL);
	take_over->iterator = scan->st.rs_tbmiterator;
	scan->st.rs_tbmiterator = tbm_begin_iterate(take_over->nothing, NULL,
												InvalidDsaPointer);
	MemoryContextSwitchTo(old_context);
}

/*
 * Core's stream has been used up, or a rescan has dropped it: the iterator comes
 * back unless it was of a bitmap that is gone.
 */
void
la_take_over_finish(LaTakeOver *take_over, TableScanDesc scan,
					bool same_bitmap)
{
	TBMIterator *iterator = &scan->st.rs_tbmiterator;

	if (same_bitmap)
	{
		tbm_end_iterate(iterator);
		*iterator = take_over->iterator;
	}
	else if (!tbm_exhausted(&take_over->iterator))
		tbm_end_iterate(&take_over->iterator);
	memset(&take_over->iterator, 0, sizeof(take_over->iterator));
	tbm_free(take_over->nothing);
	take_over->nothing = NULL;
}

/*
 * Blocks after which it is looked how dense they lie, and of these the shares that
 * follow directly on the one before: from which on a part is dense, and below
 * which it no longer is; and the same for a part that is solid.  There the mean
 * run is as long as core's largest read by default, 16 blocks.
 */
#define BLOCKS_PER_LOOK 512
#define DENSE_FROM 0.7
#define DENSE_UNTIL 0.6
#define SOLID_FROM (15.0 / 16.0)
#define SOLID_UNTIL 0.9

/*
 * With io_method = sync no part is solid: core would leave it to the read-ahead of
 * the kernel.
 */
static LaDensityLevel
level_of(double share, LaDensityLevel before)
{
	if (io_method != IOMETHOD_SYNC &&
		share >= (before == LA_DENSITY_SOLID ? SOLID_UNTIL : SOLID_FROM))
		return LA_DENSITY_SOLID;
	if (share < (before == LA_DENSITY_SPARSE ? DENSE_FROM : DENSE_UNTIL))
		return LA_DENSITY_SPARSE;
	return LA_DENSITY_DENSE;
}

/*
 * The next block of the bitmap was given to the stream in use.
 */
void
la_stream_switch_given(LaStreamSwitch *streams, BlockNumber block)
{
	LaDensity  *density = &streams->density;
	uint32		test_pages = la_trial_test_pages();
	LaDensityLevel before = density->level;
	double		share;

	if (block == density->last_block + 1)
		density->adjacent++;
	density->last_block = block;
	if (++density->counted < (test_pages > 0 ? test_pages : BLOCKS_PER_LOOK))
		return;

	share = test_pages > 0 ? DENSE_FROM :
		(double) density->adjacent / density->counted;
	density->counted = 0;
	density->adjacent = 0;
	density->level = level_of(share, before);
	if (density->level != before && density->level == LA_DENSITY_DENSE)
		la_trial_start(&streams->trial, ADVICE_FASTER, 1, 1);
}
