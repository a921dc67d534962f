/*-------------------------------------------------------------------------
 *
 * la_insert_tree.c
 *	  what there is among the partitions of a table, however deep
 *
 * A row finds its way through the keys of all levels, so what these call is judged before
 * the first row waits.  To look at thousands of partitions takes longer than inserting some
 * rows.  So each session keeps which tables of a tree are partitioned, and whether a
 * partition is foreign, until one of these tables has other partitions, of which the relation
 * cache hears (la_insert_change.c).
 *
 * The partitions are not locked yet, so they are only looked up.  One that is being detached
 * counts among them: whether it does for core depends on the snapshot.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/hash.h"
#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/table.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_partitioned_table.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "partitioning/partdesc.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "bulk_insert/judge/la_insert_change.h"
#include "bulk_insert/judge/la_insert_search.h"
#include "bulk_insert/judge/la_insert_tree.h"

/*
 * Bytes of trees after which all are forgotten.  Arbitrary: there is room for some hundreds.
 */
#define MOST_BYTES (64 * 1024)

#define FIRST_SIZE 16			/* of the hash table, which grows: arbitrary */

typedef struct LaTree
{
	Oid			root;
	char		status;
	bool		has_foreign;
	List	   *tables;			/* that are partitioned, with the root */
} LaTree;

/*
 * A walk through a tree.  All tables of a kind that the database has are listed once: there are
 * mostly fewer than leaves, which need not be looked up one by one then.
 */
typedef struct LaWalk
{
	LaTree		tree;
	bool		knows_partitioned;
	List	   *partitioned;	/* sorted, as the following */
	List	   *foreign;
} LaWalk;

#define SH_PREFIX treetable
#define SH_ELEMENT_TYPE LaTree
#define SH_KEY_TYPE Oid
#define SH_KEY root
#define SH_HASH_KEY(tb, key) murmurhash32(key)
#define SH_EQUAL(tb, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

static MemoryContext context = NULL;
static treetable_hash *trees = NULL;
static uint64 known_changes = 0;

static bool search_keys(LaInsertSearch *search, Oid root);
static bool search_key(Oid table, LaInsertSearch *search);
static LaTree tree_of(Oid root);
static LaTree find_out(Oid root);
static void walk_root(LaWalk *walk, Relation table);
static void walk_below(LaWalk *walk, Oid table);
static List *all_of(Oid catalog, AttrNumber column);
static bool is_among(const List *sorted, Oid table);
static void remember(const LaTree *tree);
static void forget_all(void);

/*
 * Can evaluating the partition keys of a table, and of its partitions that are partitioned,
 * call a function that sees the rows so far?  As la_insert_search().
 */
bool
la_insert_search_tree(LaInsertSearch *search, Relation table)
{
	LaInsertSubject keys = {
		.kind = LA_INSERT_PARTITION_KEYS,.object = RelationGetRelid(table)
	};

	return la_insert_search_by(search, keys, search_keys);
}

/*
 * Is one of the partitions a foreign table?
 */
bool
la_insert_tree_has_foreign(Relation table)
{
	AcceptInvalidationMessages();
	return tree_of(RelationGetRelid(table)).has_foreign;
}

/*
 * LaInsertLook.
 */
static bool
search_keys(LaInsertSearch *search, Oid root)
{
	LaTree		tree = tree_of(root);
	ListCell   *lc;

	foreach(lc, tree.tables)
	{
		if (search_key(lfirst_oid(lc), search))
			return true;
	}
	return false;
}

/*
 * The key's expressions, and what finds the partition.  Mirrors RelationBuildPartitionKey()
 * in partcache.c.
 */
static bool
search_key(Oid table, LaInsertSearch *search)
{
	HeapTuple	tuple = SearchSysCache1(PARTRELID, ObjectIdGetDatum(table));
	Form_pg_partitioned_table form;
	LaInsertSubject key = {.kind = LA_INSERT_PARTITION_KEY,.object = table};
	oidvector  *classes;
	Oid			family;
	Oid			type;

	Datum		expressions;
	bool		is_null;
	bool		found = false;

	if (!HeapTupleIsValid(tuple))
		return true;
	form = (Form_pg_partitioned_table) GETSTRUCT(tuple);
	expressions = SysCacheGetAttr(PARTRELID, tuple,
								  Anum_pg_partitioned_table_partexprs, &is_null);
	if (!is_null)
		found = la_insert_search_stored(search, key,
										TextDatumGetCString(expressions));
	classes = (oidvector *)
		DatumGetPointer(SysCacheGetAttrNotNull(PARTRELID, tuple,
											   Anum_pg_partitioned_table_partclass));
	for (int i = 0; i < form->partnatts && !found; i++)
		found = !get_opclass_opfamily_and_input_type(classes->values[i], &family, &type) ||
			la_insert_search_function(search,
									  get_opfamily_proc(family, type, type,
														form->partstrat == PARTITION_STRATEGY_HASH ?
														HASHEXTENDED_PROC : BTORDER_PROC));
	ReleaseSysCache(tuple);
	return found;
}

/*
 * What is known of the tree, or is found out.  It stays where it is until the next tree is
 * asked for.
 */
static LaTree
tree_of(Oid root)
{
	const LaTree *known = NULL;

	if (known_changes != la_insert_tree_changes())
		forget_all();
	if (trees != NULL)
		known = treetable_lookup(trees, root);
	return known != NULL ? *known : find_out(root);
}

/*
 * Trees that change meanwhile may have been seen as they were, or as they are: such a one is
 * not kept.  A table that is made meanwhile may be missing in a list of all, and come up as a
 * partition later, so that no table at all may have changed.
 */
static LaTree
find_out(Oid root)
{
	LaWalk		walk = {.tree.root = root};
	Relation	table = table_open(root, NoLock);
	uint64		messages;

	la_insert_watch(root);
	messages = la_insert_table_messages();
	walk.foreign = all_of(ForeignTableRelationId,
						  Anum_pg_foreign_table_ftrelid);
	walk_root(&walk, table);
	table_close(table, NoLock);
	if (messages == la_insert_table_messages())
		remember(&walk.tree);
	return walk.tree;
}

/*
 * The relation cache knows which partitions of an open table are leaves.
 */
static void
walk_root(LaWalk *walk, Relation table)
{
	PartitionDesc partitions;

	walk->tree.tables = list_make1_oid(RelationGetRelid(table));
	partitions = RelationGetPartitionDesc(table, false);
	for (int i = 0; i < partitions->nparts; i++)
	{
		if (!partitions->is_leaf[i])
			walk_below(walk, partitions->oids[i]);
		else if (is_among(walk->foreign, partitions->oids[i]))
			walk->tree.has_foreign = true;
	}
}

/*
 * Changes are listened to before partitions are looked for: none is missed.
 */
static void
walk_below(LaWalk *walk, Oid table)
{
	List	   *partitions;
	ListCell   *lc;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	la_insert_watch(table);
	walk->tree.tables = lappend_oid(walk->tree.tables, table);
	partitions = find_inheritance_children_extended(table, false, NoLock, NULL,
													NULL);
	if (partitions != NIL && !walk->knows_partitioned)
	{
		walk->partitioned = all_of(PartitionedRelationId,
								   Anum_pg_partitioned_table_partrelid);
		walk->knows_partitioned = true;
	}
	foreach(lc, partitions)
	{
		if (is_among(walk->partitioned, lfirst_oid(lc)))
			walk_below(walk, lfirst_oid(lc));
		else if (is_among(walk->foreign, lfirst_oid(lc)))
			walk->tree.has_foreign = true;
	}
	list_free(partitions);
}

/*
 * All tables that are named in this column of a catalog, sorted.
 */
static List *
all_of(Oid catalog, AttrNumber column)
{
	Relation	relation = table_open(catalog, AccessShareLock);
	SysScanDesc scan = systable_beginscan(relation, InvalidOid, false, NULL, 0,
										  NULL);
	List	   *tables = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		table = heap_getattr(tuple, column, RelationGetDescr(relation),
										 &isnull);

		tables = lappend_oid(tables, DatumGetObjectId(table));
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	list_sort(tables, list_oid_cmp);
	return tables;
}

static bool
is_among(const List *sorted, Oid table)
{
	int			low = 0;
	int			high = list_length(sorted);

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (list_nth_oid(sorted, middle) < table)
			low = middle + 1;
		else
			high = middle;
	}
	return low < list_length(sorted) && list_nth_oid(sorted, low) == table;
}

/*
 * Memory can run out at any allocation: what is in the table is whole all the same, and what
 * is not is freed when all is forgotten.  The context may have been made in vain before.
 */
static void
remember(const LaTree *tree)
{
	LaTree		copy = *tree;
	LaTree	   *entry;
	MemoryContext caller;
	bool		found;

	if (trees != NULL && MemoryContextMemAllocated(context, false) > MOST_BYTES)
		forget_all();
	if (context == NULL)
		context = AllocSetContextCreate(CacheMemoryContext,
										"pg_lookahead partition trees",
										ALLOCSET_SMALL_SIZES);
	if (trees == NULL)
		trees = treetable_create(context, FIRST_SIZE, NULL);
	caller = MemoryContextSwitchTo(context);
	copy.tables = list_copy(tree->tables);
	MemoryContextSwitchTo(caller);
	entry = treetable_insert(trees, tree->root, &found);
	copy.status = entry->status;
	*entry = copy;
}

static void
forget_all(void)
{
	known_changes = la_insert_tree_changes();
	trees = NULL;
	if (context != NULL)
		MemoryContextReset(context);
}
