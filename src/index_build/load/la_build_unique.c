/*-------------------------------------------------------------------------
 *
 * la_build_unique.c
 *	  whether the keys of a unique index are unique
 *
 * Checked while entries are loaded, where equal keys meet; core does it while it
 * sorts.  Of several duplicates the one with the least key is reported.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"

#include "index_build/entries/la_build_record.h"
#include "index_build/keys/la_build_string.h"
#include "index_build/load/la_build_unique.h"

/*
 * Mirrors the error of comparetup_index_btree_tiebreak() in tuplesortvariants.c.  Of
 * keys that are equal without being the same, core names the one that its sort
 * has on the left when it compares them, as a rule the row that came first.
 */
pg_noreturn static void
report_duplicate(const LaUniqueCheck *check, const Datum *values,
				 const bool *isnull)
{
	char	   *description;

	description = BuildIndexValueDescription(check->index, values, isnull);
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("could not create unique index \"%s\"",
					RelationGetRelationName(check->index)),
			 description ? errdetail("Key %s is duplicated.", description) :
			 errdetail("Duplicate keys exist."),
			 errtableconstraint(check->heap,
								RelationGetRelationName(check->index))));
}

/*
 * Prepares to check, in the current context.
 */
void
la_build_unique_begin(LaUniqueCheck *check, Relation heap, Relation index,
					  const LaBuildKey *key, bool nulls_not_distinct)
{
	memset(check, 0, sizeof(*check));
	check->heap = heap;
	check->index = index;
	check->key = key;
	check->nulls_not_distinct = nulls_not_distinct;
	if (!key->is_word)
		check->live = palloc(INDEX_SIZE_MASK + 1);
}

/*
 * Checks a live entry by its index tuple.
 */
void
la_build_unique_check_tuple(LaUniqueCheck *check, IndexTuple tuple)
{
	bool		has_null;

	if (check->has_live &&
		la_build_tuple_compare(check->key, check->live, tuple, &has_null) == 0 &&
		(!has_null || check->nulls_not_distinct))
	{
		Datum		values[INDEX_MAX_KEYS];
		bool		isnull[INDEX_MAX_KEYS];

		index_deform_tuple(check->live, check->key->tupdesc, values, isnull);
		report_duplicate(check, values, isnull);
	}
	check->has_live = true;
	la_build_record_copy(check->live, tuple, IndexTupleSize(tuple));
}

/*
 * Reports that an entry has the word of the one before.
 */
void
la_build_unique_report_word(LaUniqueCheck *check)
{
	Datum		value = check->live_isnull ? (Datum) 0 :
		la_build_string_value_of_word(&check->key->columns[0], check->live_word);

	report_duplicate(check, &value, &check->live_isnull);
}
