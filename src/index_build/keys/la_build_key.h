/*-------------------------------------------------------------------------
 *
 * la_build_key.h
 *	  which columns of an index key become bytes, and how
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_KEY_H
#define LA_BUILD_KEY_H

#include "access/itup.h"
#include "utils/rel.h"
#include "utils/sortsupport.h"

#include "index_build/entries/la_build_record.h"
#include "index_build/keys/la_build_collation.h"

/* How the values of a key column become bytes. */
typedef enum LaColumnKind
{
	LA_COLUMN_OTHER,			/* not at all: by comparison only */
	LA_COLUMN_SIGNED,			/* int2, int4, int8, date, time, timestamp */
	LA_COLUMN_UNSIGNED,			/* oid, bool, "char" */
	LA_COLUMN_FLOAT4,
	LA_COLUMN_FLOAT8,
	LA_COLUMN_UUID,
	LA_COLUMN_TEXT,				/* text and varchar ordered by their bytes */
	LA_COLUMN_COLLATED,			/* the same ordered by sort keys */
} LaColumnKind;

typedef struct LaKeyColumn
{
	LaColumnKind kind;
	int			width;			/* bytes of a value; 0 if it varies */
	bool		descending;
	bool		nulls_first;
	LaSortKey	sort_key;		/* of the current row, in a collated column */
} LaKeyColumn;

/*
 * Most bytes of a string that are kept with its tuple.  Arbitrary; with the largest
 * tuple they must fit into a chunk.
 */
#define LA_KEPT_BYTES 1024

/* What an abbreviated key of core's looks like, see la_build_key.c. */
typedef enum LaAbbreviation
{
	LA_ABBREVIATION_NONE,
	LA_ABBREVIATION_UNSIGNED,
	LA_ABBREVIATION_NUMERIC,
} LaAbbreviation;

typedef struct LaBuildKey
{
	Relation	index;
	TupleDesc	tupdesc;
	int			natts;
	int			nkeyatts;
	LaKeyColumn columns[INDEX_MAX_KEYS];
	SortSupport sort_keys;		/* nkeyatts full comparators */

	/*
	 * With one column of at most 8 bytes whose word can be turned back into
	 * the value, the word is the whole key and no index tuple is kept.
	 */
	bool		is_word;
	LaRecordKind kind;			/* what is kept of an entry */

	/*
	 * One column, whose values have a fixed size and become bytes: then the
	 * size of index tuples, else 0.
	 */
	Size		fixed_size;

	/* Leading columns that become bytes; all of them if == nkeyatts. */
	int			nencoded;

	/*
	 * The last of these columns has sort keys, which are a guess at the
	 * order: once sorted, the rows are to be compared by core's comparators,
	 * each with the next, and if one is out of order core has to build the
	 * index.
	 */
	bool		is_guess;

	/* When none does: abbreviated keys of the first column. */
	LaAbbreviation abbreviation;
	SortSupportData abbreviated;
} LaBuildKey;

extern bool la_build_key_init(LaBuildKey *key, Relation index);
extern bool la_build_key_is_complete(const LaBuildKey *key);
extern Oid	la_build_key_guessed_collation(const LaBuildKey *key);

#endif							/* LA_BUILD_KEY_H */
