/*-------------------------------------------------------------------------
 *
 * la_insert_rebuild.c
 *	  indexes that are built anew once all rows are there
 *
 * When the files of a table and of its index are of this subtransaction's own making,
 * nobody else can see them, and should it fail they are gone.  So the index's can be
 * emptied and built by one scan of the table, as core does when such a
 * table is truncated.  The condition mirrors ExecuteTruncateGuts() in tablecmds.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/storage.h"
#include "commands/tablecmds.h"
#include "pgstat.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "bulk_insert/entries/la_insert_rebuild.h"
#include "index_build/la_build.h"
#include "la_feature.h"

static bool is_of_this_subtransaction(Relation relation);
static void build(Relation table, Relation index);
static void report_as_insert(Relation table, Relation index,
							 MemoryContext context);
static char *duplicate_key(const char *detail);

/*
 * May an index be built anew at the end of an insert?  Not one that somebody else in
 * this process has open, to scan it; the caller knows that nobody will open it.  Not where
 * temporary files are limited, either, which an insert of core's does not need.
 */
bool
la_insert_can_rebuild(Relation table, Relation index)
{
	return index->rd_refcnt == 1 && temp_file_limit < 0 &&
		is_of_this_subtransaction(table) && is_of_this_subtransaction(index) &&
		la_feature_enabled(LA_FEATURE_INDEX_BUILD);
}

/*
 * Reads RelationData of rel.h.
 */
static bool
is_of_this_subtransaction(Relation relation)
{
	SubTransactionId current = GetCurrentSubTransactionId();

	return relation->rd_createSubid == current ||
		relation->rd_newRelfilelocatorSubid == current;
}

/*
 * Builds an index anew.  Uses up to maintenance_work_mem.
 */
void
la_insert_rebuild(Relation table, Relation index)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "pg_lookahead insert: index",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);

	PG_TRY();
	{
		build(table, index);
	}
	PG_CATCH();
	{
		if (geterrcode() == ERRCODE_UNIQUE_VIOLATION)
			report_as_insert(table, index, caller);
		PG_RE_THROW();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}

/*
 * Mirrors RelationTruncateIndexes() in heap.c, but that the planner's statistics stay
 * as they are: an insert does not change them.  It is no sequential scan of its table, either, so
 * what the build has counted as one, or several, is taken back.  Reads PgStat_TableStatus of
 * pgstat.h.
 */
static void
build(Relation table, Relation index)
{
	bool		counts = pgstat_should_count_relation(table);
	PgStat_Counter scans = counts ? table->pgstat_info->counts.numscans : 0;
	PgStat_Counter rows = counts ? table->pgstat_info->counts.tuples_returned : 0;

	CheckTableNotInUse(index, "INSERT");
	RelationTruncate(index, 0);
	if (index->rd_amcache != NULL)
	{
		pfree(index->rd_amcache);
		index->rd_amcache = NULL;
	}
	la_build(table, index, BuildIndexInfo(index));
	if (counts)
	{
		table->pgstat_info->counts.numscans = scans;
		table->pgstat_info->counts.tuples_returned = rows;
	}
}

/*
 * In an error handler: turns the error of an index build that has found a key twice into
 * that of an insert, but not one that a function of the index has raised.  Mirrors the
 * error of _bt_check_unique() in nbtinsert.c.
 */
static void
report_as_insert(Relation table, Relation index, MemoryContext context)
{
	const char *name = RelationGetRelationName(index);
	ErrorData  *error;
	char	   *key;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	if (!index->rd_index->indisunique || error->constraint_name == NULL ||
		strcmp(error->constraint_name, name) != 0)
		return;
	FlushErrorState();
	key = duplicate_key(error->detail);
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("duplicate key value violates unique constraint \"%s\"", name),
			 key != NULL ? errdetail("Key %s already exists.", key) : 0,
			 errtableconstraint(table, name)));
}

/*
 * The key in the detail of such an error, which may be translated; NULL when it is not
 * told.
 */
static char *
duplicate_key(const char *detail)
{
	const char *pattern = _("Key %s is duplicated.");
	const char *key = strstr(pattern, "%s");
	size_t		before;
	size_t		after;

	if (detail == NULL || key == NULL)
		return NULL;
	before = key - pattern;
	after = strlen(key + 2);
	if (strlen(detail) < before + after ||
		strncmp(detail, pattern, before) != 0 ||
		strcmp(detail + strlen(detail) - after, key + 2) != 0)
		return NULL;
	return pnstrdup(detail + before, strlen(detail) - before - after);
}
