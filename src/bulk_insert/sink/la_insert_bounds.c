/*-------------------------------------------------------------------------
 *
 * la_insert_bounds.c
 *	  bounds of partitions, for quick look-ups
 *
 * For a key of one column, or expression, of a common type, bounds are compared without
 * the type's function: as numbers, or byte by byte after a number of the first bytes.  A
 * row that no such bound has a partition for is core's: it may be for the default
 * partition, or for none.
 *
 * Mirrors FormPartitionKeyDatum() and get_partition_for_tuple() in execPartition.c.  Reads PartitionKeyData of partcache.h and
 * PartitionBoundInfoData of partbounds.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "port/pg_bswap.h"
#include "utils/fmgroids.h"
#include "utils/partcache.h"
#include "utils/pg_locale.h"
#include "utils/rel.h"
#include "utils/uuid.h"
#include "varatt.h"

#include "bulk_insert/sink/la_insert_bounds.h"

/*
 * How values of a key are read.
 */
typedef enum KeyKind
{
	KEY_OTHER,					/* by core */
	KEY_INT16,
	KEY_INT32,
	KEY_INT64,
	KEY_UUID,
	KEY_TEXT,
} KeyKind;

/*
 * A value, which is a number or bytes.
 */
typedef struct KeyValue
{
	int64		number;			/* or its order, as far as the first bytes
								 * tell */
	const char *bytes;
	int			length;			/* 0: a number */
} KeyValue;

/*
 * From which value on rows are of a partition, or what value they have.
 */
typedef struct Bound
{
	KeyValue	value;
	int			partition;		/* -1: none */
} Bound;

struct LaInsertBounds
{
	KeyKind		kind;
	AttrNumber	column;			/* 0: an expression */
	ExprState  *expression;
	bool		is_list;
	int			default_partition;	/* -1: none */
	int			last;			/* bound that was found last, or -1 */
	int			count;
	int64	   *numbers;		/* of the bounds, if they are but numbers */
	Bound		bounds[FLEXIBLE_ARRAY_MEMBER];	/* ascending */
};

static KeyKind key_kind(const PartitionKey key);
static bool compares_bytes(const PartitionKey key);
static void read_range(LaInsertBounds *bounds, PartitionBoundInfo info);
static void read_list(LaInsertBounds *bounds, PartitionBoundInfo info);
static int	compare_bounds(const void *a, const void *b);
static inline bool read_value(KeyKind kind, Datum datum, KeyValue *value);
static bool read_text(Datum datum, KeyValue *value);
static void number_of_bytes(KeyValue *value);
static bool get_key(const LaInsertBounds *bounds, TupleTableSlot *row,
					EState *estate, KeyValue *value);
static inline int compare(const KeyValue *a, const KeyValue *b);
static inline bool is_last(const LaInsertBounds *bounds, const KeyValue *value);
static int	search(const LaInsertBounds *bounds, const KeyValue *value);
static int	search_numbers(const LaInsertBounds *bounds, int64 number);

/*
 * The bounds of a table's partitions, in the current memory context; NULL when rows have to
 * be looked up by core.
 */
LaInsertBounds *
la_insert_bounds_read(Relation table, PartitionDesc partitions, EState *estate)
{
	PartitionKey key = RelationGetPartitionKey(table);
	PartitionBoundInfo info = partitions->boundinfo;
	LaInsertBounds *bounds;

	if (info == NULL || table->rd_rel->relispartition ||
		key_kind(key) == KEY_OTHER)
		return NULL;
	bounds = palloc0(offsetof(LaInsertBounds, bounds) +
					 info->ndatums * sizeof(Bound));
	bounds->kind = key_kind(key);
	bounds->column = key->partattrs[0];
	bounds->is_list = key->strategy == PARTITION_STRATEGY_LIST;
	bounds->default_partition = info->default_index;
	bounds->last = -1;
	if (bounds->column == 0)
		bounds->expression = ExecPrepareExpr(linitial(key->partexprs), estate);
	if (bounds->is_list)
		read_list(bounds, info);
	else
		read_range(bounds, info);
	if (bounds->kind != KEY_UUID && bounds->kind != KEY_TEXT)
	{
		/* Numbers lie close together. */
		bounds->numbers = palloc_array(int64, bounds->count);
		for (int i = 0; i < bounds->count; i++)
			bounds->numbers[i] = bounds->bounds[i].value.number;
	}
	return bounds;
}

/*
 * How are the values of a key read?
 */
static KeyKind
key_kind(const PartitionKey key)
{
	if (key->partnatts != 1 || key->strategy == PARTITION_STRATEGY_HASH)
		return KEY_OTHER;
	switch (key->partsupfunc[0].fn_oid)
	{
		case F_BTINT2CMP:
			return KEY_INT16;
		case F_BTINT4CMP:
		case F_DATE_CMP:
			return KEY_INT32;
		case F_BTINT8CMP:
		case F_TIMESTAMP_CMP:
		case F_TIMESTAMPTZ_CMP:
			return KEY_INT64;
		case F_UUID_CMP:
			return KEY_UUID;
		case F_BTTEXTCMP:
			return compares_bytes(key) ? KEY_TEXT : KEY_OTHER;
		default:
			return KEY_OTHER;
	}
}

/*
 * Does the order of texts, or where only that matters their equality, follow their
 * bytes?
 */
static bool
compares_bytes(const PartitionKey key)
{
	pg_locale_t locale;

	if (!OidIsValid(key->partcollation[0]))
		return false;
	locale = pg_newlocale_from_collation(key->partcollation[0]);
	return locale->collate_is_c ||
		(key->strategy == PARTITION_STRATEGY_LIST && locale->deterministic);
}

/*
 * Bounds of ranges.  There is a partition from a bound on, or none; what is from no
 * bound on has none.
 */
static void
read_range(LaInsertBounds *bounds, PartitionBoundInfo info)
{
	for (int i = 0; i < info->ndatums; i++)
	{
		Bound	   *bound = &bounds->bounds[bounds->count];

		if (info->kind[i][0] == PARTITION_RANGE_DATUM_MAXVALUE)
			continue;
		if (info->kind[i][0] == PARTITION_RANGE_DATUM_MINVALUE)
			bound->value.number = PG_INT64_MIN;
		else if (!read_value(bounds->kind, info->datums[i][0], &bound->value))
			elog(ERROR, "unexpected bound of a partition");
		bound->partition = info->indexes[i + 1];
		bounds->count++;
	}
}

/*
 * Values of lists, which may be in another order than ours.
 */
static void
read_list(LaInsertBounds *bounds, PartitionBoundInfo info)
{
	for (int i = 0; i < info->ndatums; i++)
	{
		Bound	   *bound = &bounds->bounds[bounds->count++];

		if (!read_value(bounds->kind, info->datums[i][0], &bound->value))
			elog(ERROR, "unexpected bound of a partition");
		bound->partition = info->indexes[i];
	}
	qsort(bounds->bounds, bounds->count, sizeof(Bound), compare_bounds);
}

static int
compare_bounds(const void *a, const void *b)
{
	return compare(&((const Bound *) a)->value, &((const Bound *) b)->value);
}

/*
 * Reads a value.  False when that takes longer than it is worth.
 */
static inline bool
read_value(KeyKind kind, Datum datum, KeyValue *value)
{
	value->length = 0;
	switch (kind)
	{
		case KEY_INT16:
			value->number = DatumGetInt16(datum);
			return true;
		case KEY_INT32:
			value->number = DatumGetInt32(datum);
			return true;
		case KEY_INT64:
			value->number = DatumGetInt64(datum);
			return true;
		case KEY_UUID:
			value->bytes = (const char *) DatumGetUUIDP(datum)->data;
			value->length = UUID_LEN;
			number_of_bytes(value);
			return true;
		default:
			return read_text(datum, value);
	}
}

/*
 * Reads a text, unless it is compressed or toasted.
 */
static bool
read_text(Datum datum, KeyValue *value)
{
	const struct varlena *text = (const struct varlena *) DatumGetPointer(datum);

	if (VARATT_IS_COMPRESSED(text) || VARATT_IS_EXTERNAL(text))
		return false;
	value->bytes = VARDATA_ANY(text);
	value->length = VARSIZE_ANY_EXHDR(text);
	number_of_bytes(value);
	return true;
}

/*
 * The first eight bytes as a number that is in their order.
 */
static void
number_of_bytes(KeyValue *value)
{
	uint64		first = 0;

	memcpy(&first, value->bytes, Min(value->length, sizeof(first)));
	value->number = (int64) (pg_ntoh64(first) ^ PG_INT64_MIN);
}

/*
 * The partition of a row of the table, as its number among the table's partitions; -1 when
 * core has to look.  The expression is evaluated in the memory of one row.
 */
int
la_insert_bounds_find(LaInsertBounds *bounds, TupleTableSlot *row,
					  EState *estate)
{
	KeyValue	value = {0};
	const Bound *bound;

	if (!get_key(bounds, row, estate, &value))
		return -1;
	if (!is_last(bounds, &value))
		bounds->last = search(bounds, &value);
	if (bounds->last < 0)
		return -1;
	bound = &bounds->bounds[bounds->last];
	if ((bounds->is_list && compare(&bound->value, &value) != 0) ||
		bound->partition == bounds->default_partition)
		return -1;
	return bound->partition;
}

/*
 * Gets the key of a row.  False when it is null, or takes longer.
 */
static bool
get_key(const LaInsertBounds *bounds, TupleTableSlot *row, EState *estate,
		KeyValue *value)
{
	ExprContext *context = GetPerTupleExprContext(estate);
	bool		is_null;
	Datum		datum;

	if (bounds->expression != NULL)
	{
		context->ecxt_scantuple = row;
		datum = ExecEvalExprSwitchContext(bounds->expression, context,
										  &is_null);
	}
	else
		datum = slot_getattr(row, bounds->column, &is_null);
	return !is_null && read_value(bounds->kind, datum, value);
}

static inline int
compare(const KeyValue *a, const KeyValue *b)
{
	int			order;

	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	if (a->length == 0 || b->length == 0)
		return a->length - b->length;
	order = memcmp(a->bytes, b->bytes, Min(a->length, b->length));
	return order != 0 ? order : a->length - b->length;
}

/*
 * Would the bound be found that was found last?
 */
static inline bool
is_last(const LaInsertBounds *bounds, const KeyValue *value)
{
	int			last = bounds->last;

	return last >= 0 && compare(&bounds->bounds[last].value, value) <= 0 &&
		(last + 1 == bounds->count ||
		 compare(&bounds->bounds[last + 1].value, value) > 0);
}

/*
 * The last bound that is not above a value, or -1.
 */
static int
search(const LaInsertBounds *bounds, const KeyValue *value)
{
	int			low = -1;
	int			high = bounds->count;

	if (bounds->numbers != NULL)
		return search_numbers(bounds, value->number);
	while (high - low > 1)
	{
		int			middle = low + (high - low) / 2;

		if (compare(&bounds->bounds[middle].value, value) <= 0)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/*
 * Halves the bounds without a branch, which the processor would foresee every other time.
 */
static int
search_numbers(const LaInsertBounds *bounds, int64 number)
{
	const int64 *low = bounds->numbers;
	int			count = bounds->count;

	if (count == 0 || number < *low)
		return -1;
	while (count > 1)
	{
		int			half = count / 2;

		low += low[half] <= number ? half : 0;
		count -= half;
	}
	return low - bounds->numbers;
}
