/*-------------------------------------------------------------------------
 *
 * la_copy_single.c
 *	  a row of a COPY FROM that must not wait
 *
 * Of a partition that is foreign, or has triggers that are called for a row before it is in
 * the table, and the like.  That there is such a partition among others is found out when
 * the first row goes there.  Mirrors CopyFrom() in copyfrom.c, where it inserts rows of a
 * partition one by one.
 *
 * Reads ResultRelInfo of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "commands/trigger.h"
#include "executor/execPartition.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "foreign/fdwapi.h"
#include "utils/rel.h"

#include "bulk_insert/source/la_copy_single.h"

static TupleTableSlot *as_core_has_it(EState *estate, ResultRelInfo *partition,
									  bool triggered, TupleTableSlot *row);
static void check(EState *estate, ResultRelInfo *partition, bool triggered,
				  TupleTableSlot *row);
static bool insert(EState *estate, ResultRelInfo *partition,
				   TupleTableSlot *row);

/*
 * Inserts a row of the partitioned table, which goes to this partition.  False when a trigger,
 * or the foreign data wrapper, has decided that it is not inserted.
 */
bool
la_copy_insert_single(EState *estate, ResultRelInfo *partition,
					  TupleTableSlot *row)
{
	bool		triggered = partition->ri_TrigDesc != NULL &&
		partition->ri_TrigDesc->trig_insert_before_row;

	row = as_core_has_it(estate, partition, triggered, row);
	row->tts_tableOid = RelationGetRelid(partition->ri_RelationDesc);
	if (triggered && !ExecBRInsertTriggers(estate, partition, row))
		return false;
	check(estate, partition, triggered, row);
	return insert(estate, partition, row);
}

/*
 * The row as one of the partition.  Where core has rows wait, it has them as tuples of the
 * partition, whose system columns a trigger can ask for.  Where it inserts them one by one,
 * this depends on the partition's columns.
 */
static TupleTableSlot *
as_core_has_it(EState *estate, ResultRelInfo *partition, bool triggered,
			   TupleTableSlot *row)
{
	TupleConversionMap *map = ExecGetRootToChildMap(partition, estate);

	if (map != NULL)
		return execute_attr_map_slot(map->attrMap, row,
									 partition->ri_PartitionTupleSlot);
	if (triggered || partition->ri_FdwRoutine != NULL)
		return row;
	if (partition->ri_PartitionTupleSlot == NULL)
		partition->ri_PartitionTupleSlot =
			table_slot_create(partition->ri_RelationDesc, &estate->es_tupleTable);
	return ExecCopySlot(partition->ri_PartitionTupleSlot, row);
}

/*
 * Gives a row its generated columns, and checks it.  A trigger may have made it one of another
 * partition.
 */
static void
check(EState *estate, ResultRelInfo *partition, bool triggered,
	  TupleTableSlot *row)
{
	const TupleConstr *constraints = partition->ri_RelationDesc->rd_att->constr;

	if (constraints != NULL && constraints->has_generated_stored)
		ExecComputeStoredGenerated(partition, estate, row, CMD_INSERT);
	if (constraints != NULL && partition->ri_FdwRoutine == NULL)
		ExecConstraints(partition, row, estate);
	if (triggered)
		ExecPartitionCheck(partition, row, estate, true);
}

static bool
insert(EState *estate, ResultRelInfo *partition, TupleTableSlot *row)
{
	Relation	table = partition->ri_RelationDesc;
	List	   *rechecks = NIL;

	if (partition->ri_FdwRoutine != NULL)
	{
		row = partition->ri_FdwRoutine->ExecForeignInsert(estate, partition,
														  row, NULL);
		if (row == NULL)
			return false;
		row->tts_tableOid = RelationGetRelid(table);
	}
	else
	{
		table_tuple_insert(table, row, estate->es_output_cid, 0, NULL);
		if (partition->ri_NumIndices > 0)
			rechecks = ExecInsertIndexTuples(partition, row, estate, false,
											 false, NULL, NIL, false);
	}
	ExecARInsertTriggers(estate, partition, row, rechecks, NULL);
	list_free(rechecks);
	return true;
}
