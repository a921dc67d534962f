/*-------------------------------------------------------------------------
 *
 * la_insert_relation.c
 *	  into which tables rows are inserted by core
 *
 * Asked for the table that a statement names, and for each partition that a row is routed to.
 *
 * Reads ResultRelInfo of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "utils/rel.h"
#include "utils/reltrigger.h"

#include "bulk_insert/judge/la_insert_relation.h"

static bool has_user_trigger(const TriggerDesc *triggers);

/*
 * Why inserts into this table, or partition, are left to core, whatever is inserted.
 */
LaReason
la_insert_unsuitable_table(const ResultRelInfo *target)
{
	if (target->ri_WithCheckOptions != NIL)
		return LA_REASON_CHECK_OPTION;
	return la_insert_unsuitable_storage(target->ri_RelationDesc);
}

/*
 * The same, as far as its storage tells.  A partitioned table has none.
 */
LaReason
la_insert_unsuitable_storage(Relation table)
{
	if (table->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		return LA_REASON_NONE;
	if (table->rd_rel->relkind != RELKIND_RELATION ||
		table->rd_tableam != GetHeapamTableAmRoutine())
		return LA_REASON_TABLE_AM;
	if (IsCatalogRelation(table) || RelationIsUsedAsCatalogTable(table))
		return LA_REASON_SYSTEM_CATALOG;
	if (RELATION_IS_OTHER_TEMP(table))
		return LA_REASON_OTHER_TEMP;
	return LA_REASON_NONE;
}

/*
 * Triggers of the table that a statement names.  One can get all rows as a table, which is
 * filled as they are inserted.
 */
LaReason
la_insert_unsuitable_triggers(const TriggerDesc *triggers, bool one_of_many)
{
	if (triggers != NULL && triggers->trig_insert_new_table)
		return LA_REASON_TRANSITION_TABLE;
	return la_insert_unsuitable_row_triggers(triggers, one_of_many);
}

/*
 * Triggers that are called for a row before it is in the table.  Those that are called for a
 * row afterwards get rows in the order in which they are inserted; among several partitions
 * that is not the order of the source.  Triggers of statements are not called for a partition
 * that rows are routed to, nor is there a table of its rows for them: relies on
 * ExecSetupTransitionCaptureState() in nodeModifyTable.c.
 */
LaReason
la_insert_unsuitable_row_triggers(const TriggerDesc *triggers, bool one_of_many)
{
	if (triggers != NULL &&
		(triggers->trig_insert_before_row || triggers->trig_insert_instead_row ||
		 (one_of_many && has_user_trigger(triggers))))
		return LA_REASON_ROW_TRIGGER;
	return LA_REASON_NONE;
}

/*
 * Is there a trigger for inserted rows that is not core's own check of a constraint?
 */
static bool
has_user_trigger(const TriggerDesc *triggers)
{
	for (int i = 0; i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (TRIGGER_FOR_ROW(trigger->tgtype) &&
			TRIGGER_FOR_INSERT(trigger->tgtype) && !trigger->tgisinternal)
			return true;
	}
	return false;
}
