/*-------------------------------------------------------------------------
 *
 * la_build_key.c
 *	  which columns of an index key become bytes, and how
 *
 * A key is turned into a string of bytes such that comparing two strings
 * byte by byte, as unsigned numbers, gives the order of the index.  Sorting
 * then needs no comparison function: the sort looks at eight bytes (a word)
 * at a time.  How they are made is told in la_build_string.c; which columns take
 * part is decided here.
 *
 * Only columns whose comparison function we know take part, and only up to
 * the first other column, or up to and with the first text that is ordered by sort
 * keys.  Rows whose strings are equal so far are then compared by core's
 * comparators.  Where the first column is not one we know, core's abbreviated
 * key (see utils/sortsupport.h) serves as the first word if there is one; it is
 * made for being compared as a number.
 *
 * Reads SortSupportData of sortsupport.h and pg_locale_struct of pg_locale.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "catalog/index.h"
#include "catalog/pg_collation_d.h"
#include "utils/fmgroids.h"
#include "utils/pg_locale.h"
#include "utils/uuid.h"

#include "index_build/keys/la_build_key.h"
#include "la_compat.h"

/*
 * The kind of a column whose comparison function is for values of that size, passed
 * by value.
 */
static LaColumnKind
fixed_kind(Form_pg_attribute attribute, LaColumnKind kind, int size)
{
	return attribute->attbyval && attribute->attlen == size ? kind : LA_COLUMN_OTHER;
}

static LaColumnKind
text_kind(Oid collation)
{
	pg_locale_t locale;

	if (!OidIsValid(collation))
		return LA_COLUMN_OTHER;
	locale = pg_newlocale_from_collation(collation);
	if (locale->collate_is_c)
		return LA_COLUMN_TEXT;
	if (pg_strxfrm_enabled(locale) ||
		la_compat_collation_provider(collation) == COLLPROVIDER_LIBC)
		return LA_COLUMN_COLLATED;
	return LA_COLUMN_OTHER;
}

/*
 * Which kind of column this is, told by the comparison function of its
 * operator class: that, not the type, defines the order.  The type may be another
 * than the function's, whose values have other sizes (relies on assignProcTypes() in
 * opclasscmds.c).  Relies on btint2cmp(),
 * btint4cmp(), btint8cmp(), btoidcmp() and btcharcmp() in nbtcompare.c,
 * date_cmp() and time_cmp() in date.c, timestamp_cmp_internal() in timestamp.c,
 * uuid_internal_cmp() in uuid.c and varstr_cmp() in varlena.c.
 */
static LaColumnKind
column_kind(Relation index, int column)
{
	Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(index), column);
	Oid			collation = index->rd_indcollation[column];

	switch (index_getprocid(index, column + 1, BTORDER_PROC))
	{
		case F_BTINT2CMP:
			return fixed_kind(attribute, LA_COLUMN_SIGNED, sizeof(int16));
		case F_BTINT4CMP:
		case F_DATE_CMP:
			return fixed_kind(attribute, LA_COLUMN_SIGNED, sizeof(int32));
		case F_BTINT8CMP:
		case F_TIME_CMP:
		case F_TIMESTAMP_CMP:
		case F_TIMESTAMPTZ_CMP:
			return fixed_kind(attribute, LA_COLUMN_SIGNED, sizeof(int64));
		case F_BTOIDCMP:
			return fixed_kind(attribute, LA_COLUMN_UNSIGNED, sizeof(Oid));
		case F_BTBOOLCMP:
		case F_BTCHARCMP:
			return fixed_kind(attribute, LA_COLUMN_UNSIGNED, sizeof(char));
		case F_BTFLOAT4CMP:
			return fixed_kind(attribute, LA_COLUMN_FLOAT4, sizeof(float4));
		case F_BTFLOAT8CMP:
			return fixed_kind(attribute, LA_COLUMN_FLOAT8, sizeof(float8));
		case F_UUID_CMP:
			return attribute->attlen == UUID_LEN ? LA_COLUMN_UUID : LA_COLUMN_OTHER;
		case F_BTTEXTCMP:
			return attribute->attlen == -1 ? text_kind(collation) : LA_COLUMN_OTHER;
		default:
			return LA_COLUMN_OTHER;
	}
}

/*
 * Mirrors tuplesort_begin_index_btree() in tuplesortvariants.c for the comparator.
 */
static void
init_column(LaBuildKey *key, int column)
{
	SortSupport ssup = &key->sort_keys[column];
	LaKeyColumn *description = &key->columns[column];
	int16		option = key->index->rd_indoption[column];

	description->kind = column_kind(key->index, column);
	if (description->kind == LA_COLUMN_COLLATED)
		la_build_collation_key_init(&description->sort_key,
									key->index->rd_indcollation[column]);
	description->width = Max(TupleDescAttr(key->tupdesc, column)->attlen, 0);
	description->descending = (option & INDOPTION_DESC) != 0;
	description->nulls_first = (option & INDOPTION_NULLS_FIRST) != 0;

	ssup->ssup_cxt = CurrentMemoryContext;
	ssup->ssup_collation = key->index->rd_indcollation[column];
	ssup->ssup_nulls_first = description->nulls_first;
	ssup->ssup_attno = column + 1;
	ssup->abbreviate = false;
	PrepareSortSupportFromIndexRel(key->index, description->descending, ssup);
}

/*
 * Looks whether core has abbreviated keys for the first column whose order
 * we know: those compared as unsigned numbers (char(n) under ICU, bytea, inet,
 * macaddr and others) and those of numeric, which are signed numbers in
 * reverse (relies on numeric_cmp_abbrev() in numeric.c).
 */
static void
init_abbreviation(LaBuildKey *key)
{
	SortSupport ssup = &key->abbreviated;

	*ssup = key->sort_keys[0];
	ssup->comparator = NULL;
	ssup->ssup_extra = NULL;
	ssup->abbreviate = true;
	PrepareSortSupportFromIndexRel(key->index, key->columns[0].descending, ssup);

	if (ssup->abbrev_converter == NULL || sizeof(Datum) != sizeof(uint64))
		key->abbreviation = LA_ABBREVIATION_NONE;
	else if (ssup->comparator == ssup_datum_unsigned_cmp)
		key->abbreviation = LA_ABBREVIATION_UNSIGNED;
	else if (index_getprocid(key->index, 1, BTORDER_PROC) == F_NUMERIC_CMP)
		key->abbreviation = LA_ABBREVIATION_NUMERIC;
}

/*
 * Describes the key of an index.  False if nothing is known about the order
 * of its first column, so that there would be nothing to gain.  Allocates in
 * the current context.
 */
bool
la_build_key_init(LaBuildKey *key, Relation index)
{
	memset(key, 0, sizeof(*key));
	key->index = index;
	key->tupdesc = RelationGetDescr(index);
	key->natts = IndexRelationGetNumberOfAttributes(index);
	key->nkeyatts = IndexRelationGetNumberOfKeyAttributes(index);
	key->sort_keys = palloc0(key->nkeyatts * sizeof(SortSupportData));

	for (int i = 0; i < key->nkeyatts; i++)
		init_column(key, i);
	while (key->nencoded < key->nkeyatts && !key->is_guess &&
		   key->columns[key->nencoded].kind != LA_COLUMN_OTHER)
		key->is_guess = key->columns[key->nencoded++].kind == LA_COLUMN_COLLATED;

	key->is_word = key->natts == 1 &&
		(key->columns[0].kind == LA_COLUMN_SIGNED ||
		 key->columns[0].kind == LA_COLUMN_UNSIGNED);

	key->kind = key->is_word ? LA_RECORD_WORD :
		key->is_guess ? LA_RECORD_BYTES : LA_RECORD_TUPLE;
	if (key->nencoded == 0)
		init_abbreviation(key);
	if (key->natts == 1 && key->nencoded == 1 && key->columns[0].width > 0)
		key->fixed_size = MAXALIGN(sizeof(IndexTupleData) + key->columns[0].width);
	return key->nencoded > 0 || key->abbreviation != LA_ABBREVIATION_NONE;
}

/*
 * True if equal strings mean equal keys, so that core's comparators are
 * never needed.
 */
bool
la_build_key_is_complete(const LaBuildKey *key)
{
	return key->nencoded == key->nkeyatts && !key->is_guess;
}

/*
 * The collation whose sort keys are taken for its order.  InvalidOid if there is
 * none.
 */
Oid
la_build_key_guessed_collation(const LaBuildKey *key)
{
	return key->is_guess ?
		key->columns[key->nencoded - 1].sort_key.collation : InvalidOid;
}
