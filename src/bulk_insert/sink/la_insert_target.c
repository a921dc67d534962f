/*-------------------------------------------------------------------------
 *
 * la_insert_target.c
 *	  the table that rows are inserted into
 *
 * What happens to a row mirrors ExecInsert() in nodeModifyTable.c, in its
 * order, but that a batch of rows goes through the table, then its index entries
 * are made row by row, with their AFTER triggers queued.
 *
 * Reads ResultRelInfo of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/hio.h"
#include "access/tableam.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "miscadmin.h"
#include "storage/freespace.h"
#include "utils/memutils.h"

#include "bulk_insert/page/la_insert_batch.h"
#include "bulk_insert/sink/la_insert_target.h"

/*
 * Rows will be inserted into this table.
 */
void
la_insert_target_begin(LaInsertTarget *target, LaInsertCommon *common,
					   ResultRelInfo *relation)
{
	EState	   *estate = common->estate;
	Relation	table = relation->ri_RelationDesc;
	const TupleConstr *constraints = table->rd_att->constr;

	memset(target, 0, sizeof(*target));
	target->common = common;
	target->relation = relation;
	target->oid = RelationGetRelid(table);
	target->has_constraints = constraints != NULL;
	target->checks_values = constraints != NULL && constraints->num_check > 0 &&
		!constraints->has_generated_stored;
	target->checks_bounds = table->rd_rel->relispartition &&
		relation->ri_RootResultRelInfo == NULL;
	if (table->rd_rel->relhasindex && relation->ri_IndexRelationDescs == NULL)
		ExecOpenIndices(relation, false);
	if (constraints != NULL && constraints->has_generated_stored)
		target->generated = table_slot_create(table, &estate->es_tupleTable);
}

/*
 * Gives a row its generated columns, and checks it against the table's constraints; that it
 * belongs into the table, where it has not been routed there.  Returns the row, maybe in
 * another slot.
 */
TupleTableSlot *
la_insert_target_check(LaInsertTarget *target, TupleTableSlot *row)
{
	ResultRelInfo *relation = target->relation;
	EState	   *estate = target->common->estate;

	if (target->generated != NULL)
	{
		ExecCopySlot(target->generated, row);
		row = target->generated;
		ExecMaterializeSlot(row);
		row->tts_tableOid = target->oid;
		ExecComputeStoredGenerated(relation, estate, row, CMD_INSERT);
	}
	row->tts_tableOid = target->oid;
	if (target->has_constraints)
		ExecConstraints(relation, row, estate);
	if (target->checks_bounds)
		ExecPartitionCheck(relation, row, estate, true);
	return row;
}

/*
 * A row becomes a tuple of the table.
 */
static inline TupleTableSlot *
form(LaInsertTarget *target, TupleTableSlot *row)
{
	if (TTS_IS_BUFFERTUPLE(row))
		return row;
	if (target->single == NULL)
		target->single = table_slot_create(target->relation->ri_RelationDesc,
										   &target->common->estate->es_tupleTable);
	row = ExecCopySlot(target->single, row);
	row->tts_tableOid = target->oid;
	return row;
}

/*
 * Makes a row that is inserted at once what core checks: a tuple, unless it is for a partition with
 * the columns of the statement's table.  A CHECK can ask how its values are stored.  Mirrors
 * ExecGetInsertNewTuple() and ExecInsert() in nodeModifyTable.c.
 */
TupleTableSlot *
la_insert_target_form(LaInsertTarget *target, TupleTableSlot *row)
{
	if (target->relation->ri_RootResultRelInfo == NULL)
		return form(target, row);
	if (target->map != NULL)
		ExecMaterializeSlot(row);
	return row;
}

/*
 * A row is in the table: its index entries, and its AFTER triggers.
 */
static void
finish_row(LaInsertTarget *target, TupleTableSlot *row)
{
	ResultRelInfo *relation = target->indexes != NULL ?
		&target->indexes->at_once : target->relation;
	EState	   *estate = target->common->estate;
	List	   *rechecks = NIL;

	if (relation->ri_NumIndices > 0)
		rechecks = ExecInsertIndexTuples(relation, row, estate, false, false,
										 NULL, NIL, false);
	if (target->indexes != NULL)
		la_insert_indexes_add(target->indexes, row);
	ExecARInsertTriggers(estate, target->relation, row, rechecks, NULL);
	list_free(rechecks);
}

/*
 * Inserts a row at once.  As in core it is a tuple of the table then: triggers can ask for its
 * system columns.
 */
void
la_insert_target_insert(LaInsertTarget *target, TupleTableSlot *row)
{
	Relation	table = target->relation->ri_RelationDesc;
	EState	   *estate = target->common->estate;

	row = form(target, row);
	table_tuple_insert(table, row, estate->es_output_cid, 0,
					   target->bulk);
	finish_row(target, row);
	if (target->single != NULL)
		ExecClearTuple(target->single);
}

/*
 * From now on rows may be collected.  For COPY core inserts in bulk, as for its own, in the ring
 * of buffers of all tables.  Mirrors GetBulkInsertState() in heapam.c.
 */
void
la_insert_target_collect(LaInsertTarget *target)
{
	LaInsertCommon *common = target->common;
	Relation	table = target->relation->ri_RelationDesc;

	target->spare = RelationGetTargetPageFreeSpace(table,
												   HEAP_DEFAULT_FILLFACTOR);
	la_insert_extent_begin(&target->extent, table, common->counters,
						   &common->strategy);
	if (common->line == NULL)
		return;
	if (common->strategy == NULL)
		common->strategy = GetAccessStrategy(BAS_BULKWRITE);
	target->bulk = palloc_object(BulkInsertStateData);
	*target->bulk = (BulkInsertStateData)
	{
		.strategy = common->strategy,
			.current_buf = InvalidBuffer,
			.next_free = InvalidBlockNumber,
			.last_free = InvalidBlockNumber,
	};
}

/*
 * Rows of other tables come now: core keeps no page pinned meanwhile.  Mirrors
 * ReleaseBulkInsertStatePin() in heapam.c, which would forget the pages in advance, too.
 */
void
la_insert_target_unpin(LaInsertTarget *target)
{
	BulkInsertState bulk = target->bulk;

	if (bulk == NULL || bulk->current_buf == InvalidBuffer)
		return;
	ReleaseBuffer(bulk->current_buf);
	bulk->current_buf = InvalidBuffer;
}

/*
 * So many pages of rows, one at least, will be inserted now; "most" as for
 * la_insert_extent_expect().  When that is none, there are more tables than the ring has
 * room for: the page that each has begun would be written, and read again.  Relies on
 * RelationAddBlocks() in hio.c, which extends a table by as many pages as ever, in bulk:
 * of several tables each would have such pages.
 */
void
la_insert_target_expect(LaInsertTarget *target, uint32 pages, uint32 most)
{
	la_insert_extent_expect(&target->extent, pages, most);
	if (target->bulk == NULL)
		return;
	target->bulk->already_extended_by = pages;
	target->bulk->strategy = most > 0 ? target->common->strategy : NULL;
}

/*
 * Core inserts no more batches into the table that it filled.  Pages by which it has
 * extended the table in advance are for everybody.
 */
void
la_insert_target_end_bulk(LaInsertTarget *target)
{
	Relation	table = target->relation->ri_RelationDesc;
	BulkInsertState bulk = target->bulk;
	BlockNumber first;

	if (bulk == NULL)
		return;
	la_insert_target_unpin(target);
	first = bulk->next_free;
	if (BlockNumberIsValid(first))
	{
		for (BlockNumber block = first; block <= bulk->last_free; block++)
			RecordPageWithFreeSpace(table, block,
									BLCKSZ - SizeOfPageHeaderData);
		FreeSpaceMapVacuumRange(table, first, bulk->last_free + 1);
	}
	pfree(bulk);
	target->bulk = NULL;
}

/*
 * Has core extended the table in advance by pages that it has not filled?  Reads
 * BulkInsertStateData of hio.h.
 */
bool
la_insert_target_fills_extension(const LaInsertTarget *target)
{
	return target->bulk != NULL &&
		BlockNumberIsValid(target->bulk->next_free);
}

/*
 * Is there something to be done for a row once it is in the table?
 */
bool
la_insert_target_has_followers(const LaInsertTarget *target)
{
	const TriggerDesc *triggers = target->relation->ri_TrigDesc;
	bool		indexes = target->indexes != NULL ?
		target->indexes->wants_rows : target->relation->ri_NumIndices > 0;

	return indexes || (triggers != NULL && triggers->trig_insert_after_row);
}

/*
 * Inserts rows where core finds room, and takes over what core has made of them.
 */
static void
insert_by_core(LaInsertTarget *target)
{
	LaInsertBatch *batch = target->common->batch;
	CommandId	cid = target->common->estate->es_output_cid;
	TupleTableSlot **slots;

	if (batch->image.rows == 1)
	{
		/*
		 * For a row that leaves less room on a page than the fillfactor
		 * wants, heap_multi_insert() extends the table by two pages.
		 */
		heap_insert(batch->table, &batch->tuples[0], cid, 0, target->bulk);
		return;
	}
	slots = la_insert_batch_slots(batch);
	heap_multi_insert(batch->table, slots, batch->image.rows, cid, 0,
					  target->bulk);
	for (int i = 0; i < batch->image.rows; i++)
		batch->tuples[i] = *ExecFetchSlotHeapTuple(slots[i], false, NULL);
}

/*
 * The rows of the batch are in the table.
 */
static void
finish_rows(LaInsertTarget *target)
{
	LaInsertBatch *batch = target->common->batch;
	EState	   *estate = target->common->estate;
	uint64	   *line = target->common->line;
	uint64		last = line == NULL ? 0 : *line;

	if (target->inserted == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(estate->es_query_cxt);

		target->inserted = ExecInitExtraTupleSlot(estate,
												  RelationGetDescr(batch->table),
												  &TTSOpsHeapTuple);
		MemoryContextSwitchTo(caller);
	}
	for (int i = 0; i < batch->image.rows; i++)
	{
		CHECK_FOR_INTERRUPTS();
		ExecStoreHeapTuple(&batch->tuples[i], target->inserted, false);
		ResetPerTupleExprContext(estate);
		if (line != NULL)
			*line = batch->image.lines[i];
		finish_row(target, target->inserted);
	}
	if (line != NULL)
		*line = last;
	ExecClearTuple(target->inserted);
}

/*
 * Inserts what has been collected, some rows, into an empty page of ours if there is one.
 */
static void
flush_batch(LaInsertTarget *target, Buffer buffer)
{
	LaInsertCommon *common = target->common;
	LaInsertBatch *batch = common->batch;
	MemoryContext caller = MemoryContextSwitchTo(common->flush_context);

	la_insert_batch_make_tuples(batch);
	if (BufferIsValid(buffer))
		la_insert_batch_write(batch, buffer, common->estate->es_output_cid);
	else
		insert_by_core(target);
	if (la_insert_target_has_followers(target))
		finish_rows(target);
	common->bytes += la_insert_image_bytes(&batch->image);
	common->counters->rows += batch->image.rows;
	common->counters->batches++;
	la_insert_batch_reset(batch, batch->image.page);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(common->flush_context);
}

/*
 * Inserts what has been collected, some rows that need no page of their own and are few,
 * where core finds room.
 */
void
la_insert_target_flush_rest(LaInsertTarget *target)
{
	if (target->common->batch->image.toasted)
		la_insert_target_flush_page(target);
	else
		flush_batch(target, InvalidBuffer);
}

/*
 * Is there a page of ours for a full page of rows, which have this length in the mean?  If so,
 * core's bulk insert, which has its own ring of buffers, is ended.
 */
bool
la_insert_target_ensure_page(LaInsertTarget *target, Size row_length)
{
	LaInsertCommon *common = target->common;

	if (!la_insert_past_threshold(common) ||
		la_insert_target_fills_extension(target) ||
		!la_insert_extent_ensure(&target->extent, row_length))
		return false;
	la_insert_target_end_bulk(target);
	return true;
}

/*
 * Inserts what has been collected, some rows, as a page of its own where that may be.
 * Rows that were toasted for a page of ours must get one: core would toast them again.
 */
void
la_insert_target_flush_page(LaInsertTarget *target)
{
	const LaInsertBatch *batch = target->common->batch;
	Buffer		buffer = InvalidBuffer;

	if (la_insert_target_ensure_page(target, la_insert_batch_mean(batch)))
		buffer = la_insert_extent_take(&target->extent);
	if (!BufferIsValid(buffer) && batch->image.toasted)
		buffer = la_insert_extent_single(&target->extent);
	flush_batch(target, buffer);
}

/*
 * All rows have been inserted.
 */
void
la_insert_target_end(LaInsertTarget *target)
{
	la_insert_target_end_bulk(target);
	la_insert_extent_end(&target->extent);
	if (target->indexes != NULL)
		la_insert_indexes_end(target->indexes);
}
