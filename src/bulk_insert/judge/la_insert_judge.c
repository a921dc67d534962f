/*-------------------------------------------------------------------------
 *
 * la_insert_judge.c
 *	  whether the rows of an insert may be collected
 *
 * A function that is called for one row can see, in PostgreSQL, the rows before
 * it, when it is volatile: it takes a new snapshot.  Rows that wait in a batch
 * cannot be seen, so such inserts are left to core.  What makes a row is judged
 * before the query is planned; the defaults of columns are part of it by then.
 * What the table adds to a row is judged when there is a batch to collect.
 *
 * Reads RelationData of rel.h and ResultRelInfo of execnodes.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tupdesc.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "nodes/pg_list.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/reltrigger.h"

#include "bulk_insert/judge/la_insert_judge.h"
#include "bulk_insert/judge/la_insert_search.h"
#include "bulk_insert/judge/la_insert_tree.h"

static bool has_looked_at_user_code(const LaInsertSearch *search);
static bool has_volatile_constraint(const ResultRelInfo *target,
									LaInsertSearch *search);
static bool has_volatile_column(Relation table, LaInsertSearch *search);
static bool has_volatile_index(const ResultRelInfo *target,
							   LaInsertSearch *search);
static bool has_volatile_condition(const ResultRelInfo *target,
								   LaInsertSearch *search);

/*
 * Why an insert must be left to core, as far as its query tells.
 */
LaJudgement
la_insert_judge(Query *query)
{
	LaInsertSearch search = {0};
	LaReason	reason = LA_REASON_NONE;

	if (query->returningList != NIL)
		reason = LA_REASON_RETURNING;
	else if (query->onConflict != NULL)
		reason = LA_REASON_ON_CONFLICT;
	else if (query->hasModifyingCTE)
		reason = LA_REASON_MODIFYING_WITH;
	else if (la_insert_search((Node *) query, &search))
		reason = LA_REASON_VOLATILE;
	return (LaJudgement)
	{
		.reason = reason,.functions = search.functions,.types = search.types,
			.tables = search.tables,.era = search.era,.runs_user_code = has_looked_at_user_code(&search)
	};
}

/*
 * Can anything that core evaluates for a row of this table see the rows before?
 * That can be what is evaluated while the row waits (constraints, generated columns),
 * and what is evaluated when the rows behind it are in the table, too: indexes, and
 * the conditions of AFTER triggers.  Reading it all takes longer than inserting a few
 * rows, so this is asked when there is a batch to collect, and of a partition to which
 * rows are routed, when it is met.  Tells, too, whether functions are called for a row that
 * are not the server's own.
 */
bool
la_insert_has_volatile_check(const ResultRelInfo *target,
							 bool *runs_user_code)
{
	Relation	table = target->ri_RelationDesc;
	LaInsertSearch search = {0};
	LaInsertSearch late = {.late = true};
	bool		found;

	found = has_volatile_constraint(target, &search) ||
		has_volatile_column(table, &search) ||
		has_volatile_index(target, &late) ||
		has_volatile_condition(target, &late);
	*runs_user_code = has_looked_at_user_code(&search) ||
		has_looked_at_user_code(&late);
	return found;
}

static bool
has_looked_at_user_code(const LaInsertSearch *search)
{
	return search->functions != NIL || search->types != NIL;
}

/*
 * CHECK constraints, the partition key, and the bounds of a partition unless the row has
 * been routed there.  The expressions of a partition key must be immutable, as those of
 * generated columns and indexes; but core takes a cast to a domain for that, whatever the
 * domain's CHECK calls.
 */
static bool
has_volatile_constraint(const ResultRelInfo *target, LaInsertSearch *search)
{
	Relation	table = target->ri_RelationDesc;
	const TupleConstr *constraints = table->rd_att->constr;

	for (int i = 0; constraints != NULL && i < constraints->num_check; i++)
	{
		LaInsertSubject check = {
			.kind = LA_INSERT_CHECK,.object = RelationGetRelid(table),.number = i
		};

		if (constraints->check[i].ccenforced &&
			la_insert_search_stored(search, check, constraints->check[i].ccbin))
			return true;
	}
	if (target->ri_RootResultRelInfo == NULL && table->rd_rel->relispartition &&
		la_insert_search((Node *) RelationGetPartitionQual(table), search))
		return true;
	return table->rd_rel->relkind == RELKIND_PARTITIONED_TABLE &&
		la_insert_search_tree(search, table);
}

/*
 * Generated columns.  What a constraint evaluates of virtual ones is no different.
 */
static bool
has_volatile_column(Relation table, LaInsertSearch *search)
{
	TupleDesc	descriptor = RelationGetDescr(table);
	const TupleConstr *constraints = descriptor->constr;

	if (constraints == NULL ||
		!(constraints->has_generated_stored || constraints->has_generated_virtual))
		return false;
	for (int i = 0; i < constraints->num_defval; i++)
	{
		const AttrDefault *value = &constraints->defval[i];
		LaInsertSubject column = {
			.kind = LA_INSERT_GENERATED,.object = RelationGetRelid(table),
			.number = value->adnum
		};

		if (TupleDescAttr(descriptor, value->adnum - 1)->attgenerated != '\0' &&
			la_insert_search_stored(search, column, value->adbin))
			return true;
	}
	return false;
}

/*
 * Expressions and predicates of indexes, and what their operator classes call.  Only of
 * those that the insert has opened: others may have been made since, and are not locked.
 * A table that is partitioned has none open.
 */
static bool
has_volatile_index(const ResultRelInfo *target, LaInsertSearch *search)
{
	for (int i = 0; i < target->ri_NumIndices; i++)
	{
		const IndexInfo *info = target->ri_IndexRelationInfo[i];
		Relation	index = target->ri_IndexRelationDescs[i];
		int			functions = IndexRelationGetNumberOfKeyAttributes(index) *
			index->rd_indam->amsupport;

		if (la_insert_search((Node *) info->ii_Expressions, search) ||
			la_insert_search((Node *) info->ii_Predicate, search))
			return true;
		for (int j = 0; j < functions; j++)
		{
			if (la_insert_search_function(search, index->rd_support[j]))
				return true;
		}
	}
	return false;
}

/*
 * WHEN conditions of triggers, which are evaluated when a row is in the table.  The
 * triggers themselves come at the end.
 *
 * They are read from the insert's own copy: the relation's is freed when it is rebuilt,
 * which can be at any look into the catalogs.
 */
static bool
has_volatile_condition(const ResultRelInfo *target, LaInsertSearch *search)
{
	const TriggerDesc *triggers = target->ri_TrigDesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];
		LaInsertSubject condition = {
			.kind = LA_INSERT_CONDITION,.object = trigger->tgoid
		};

		if (trigger->tgqual != NULL && TRIGGER_FOR_ROW(trigger->tgtype) &&
			TRIGGER_FOR_INSERT(trigger->tgtype) &&
			la_insert_search_stored(search, condition, trigger->tgqual))
			return true;
	}
	return false;
}
