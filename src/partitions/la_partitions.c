/*-------------------------------------------------------------------------
 *
 * la_partitions.c
 *	  the SQL functions and procedures that create partitions
 *
 * Start, step and values may be of any type: they are turned into texts, as
 * which bounds go to core.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "nodes/parsenodes.h"
#include "tcop/pquery.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "la_sql_function.h"
#include "partitions/la_partition_create.h"
#include "partitions/la_partition_way.h"

#define RESULT_COLUMNS 4

/* More than this is a slip, and would be a problem in other places.  Arbitrary. */
#define MOST_PARTITIONS 1000000

PG_FUNCTION_INFO_V1(pg_lookahead_create_range_partitions);
PG_FUNCTION_INFO_V1(pg_lookahead_create_range_partitions_batched);
PG_FUNCTION_INFO_V1(pg_lookahead_create_list_partitions);
PG_FUNCTION_INFO_V1(pg_lookahead_create_list_partitions_batched);

static Datum
form_result(FunctionCallInfo fcinfo, const LaPartitionResult *result)
{
	TupleDesc	row = la_sql_function_row(fcinfo, RESULT_COLUMNS);
	Datum		values[RESULT_COLUMNS] = {0};
	bool		nulls[RESULT_COLUMNS] = {0};
	int			i = 0;

	values[i++] = Int32GetDatum(result->created);
	values[i++] = Int32GetDatum(result->present);
	values[i++] = CStringGetTextDatum(la_partition_way_name(result->way));
	if (result->reason == NULL)
		nulls[i++] = true;
	else
		values[i++] = CStringGetTextDatum(result->reason);
	Assert(i == RESULT_COLUMNS);
	return HeapTupleGetDatum(heap_form_tuple(row, values, nulls));
}

static Datum
create_in_one(FunctionCallInfo fcinfo, const LaPartitionRequest *request)
{
	LaPartitionResult result = {0};

	la_partition_create(request, request->series->count, false, &result);
	return form_result(fcinfo, &result);
}

/*
 * The elements of the array that is argument 1, as texts, and their type.  One without a type has
 * elements of type text.
 */
static char **
split_array(FunctionCallInfo fcinfo, Oid *element_type, int *count)
{
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, 1);
	Datum		array = PG_GETARG_DATUM(1);
	Oid			element = type == UNKNOWNOID ? TEXTOID
		: get_base_element_type(type);
	int16		length;
	bool		by_value;
	char		alignment;
	Datum	   *values;
	bool	   *nulls;
	char	  **texts;
	int			level;

	if (!OidIsValid(element))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("argument \"%s\" must be an array", "bounds")));
	if (type == UNKNOWNOID)
		array = OidFunctionCall3(F_ARRAY_IN, array, ObjectIdGetDatum(element),
								 Int32GetDatum(-1));
	get_typlenbyvalalign(element, &length, &by_value, &alignment);
	deconstruct_array(DatumGetArrayTypeP(array), element, length, by_value,
					  alignment, &values, &nulls, count);
	if (*count > MOST_PARTITIONS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("argument \"%s\" has more than %d elements", "bounds",
						MOST_PARTITIONS)));
	texts = palloc0_array(char *, Max(*count, 1));
	level = la_sql_argument_begin_output();
	for (int i = 0; i < *count; i++)
	{
		if (!nulls[i])
			texts[i] = la_sql_argument_text_of(values[i], element);
	}
	AtEOXact_GUC(true, level);
	*element_type = element;
	return texts;
}

/*
 * Arguments 1 and 2: an array of values, or a modulus.
 */
static const LaPartitionSeries *
read_values(FunctionCallInfo fcinfo, Oid parent)
{
	Oid			key_type = la_partition_key_type(parent, true);
	Oid			type = InvalidOid;
	int			count;
	char	  **values = NULL;

	if (PG_ARGISNULL(1) == PG_ARGISNULL(2))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("either \"bounds\" or \"modulus\" must be given")));
	if (PG_ARGISNULL(1))
		count = la_sql_argument_number(fcinfo, 2, "modulus", 1, MOST_PARTITIONS);
	else
		values = split_array(fcinfo, &type, &count);

	/*
	 * Others are cast as in a statement; texts are read as if they stood
	 * there in quotes.
	 */
	if (type == key_type || type == TEXTOID || type == VARCHAROID || type == BPCHAROID)
		type = InvalidOid;
	return la_partition_series_values(values, count, type);
}

/*
 * What the arguments ask for; the optional ones begin with number "options".
 */
static LaPartitionRequest *
read_request(FunctionCallInfo fcinfo, bool by_list, int options)
{
	LaPartitionRequest *request = palloc0_object(LaPartitionRequest);
	char	   *way;

	la_sql_argument_need(fcinfo, 0, "parent");
	request->parent = PG_GETARG_OID(0);
	la_partition_check_command(request->parent);
	request->names = la_sql_argument_text(fcinfo, options);
	if (!PG_ARGISNULL(options + 1))
		request->tablespace = pstrdup(NameStr(*PG_GETARG_NAME(options + 1)));
	request->storage = la_sql_argument_text(fcinfo, options + 2);
	request->subpartitions = la_sql_argument_text(fcinfo, options + 3);
	way = la_sql_argument_text(fcinfo, options + 4);
	request->way = way == NULL ? LA_PARTITION_AUTO
		: la_partition_way_by_name(way);
	if (by_list)
		request->series = read_values(fcinfo, request->parent);
	else
	{
		Oid			type = la_partition_key_type(request->parent, false);

		request->series =
			la_partition_series_ranges(type, la_sql_argument_any(fcinfo, 1, "start"),
									   la_sql_argument_any(fcinfo, 2, "step"),
									   la_sql_argument_number(fcinfo, 3, "count", 1,
															  MOST_PARTITIONS));
	}
	return request;
}

/*
 * SQL function pg_lookahead_create_range_partitions(parent, start, step,
 * count, names, tablespace, storage, subpartition_by, way).
 */
Datum
pg_lookahead_create_range_partitions(PG_FUNCTION_ARGS)
{
	return create_in_one(fcinfo, read_request(fcinfo, false, 4));
}

/*
 * Creates up to so many partitions.  Core leaves the bounds of all partitions
 * that the table has in the current memory context (relies on
 * RelationBuildPartitionDesc() in partdesc.c).
 */
static void
create_batch(MemoryContext context, const LaPartitionRequest *request,
			 int size, LaPartitionResult *result)
{
	MemoryContext caller = MemoryContextSwitchTo(context);

	la_partition_create(request, size, true, result);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(context);
}

/*
 * Creates so many partitions at a time, each time in a transaction; the last
 * one is the caller's.
 */
static Datum
create_in_batches(FunctionCallInfo fcinfo, bool by_list)
{
	CallContext *call = (CallContext *) fcinfo->context;
	int			argument = by_list ? 3 : 4;
	LaPartitionResult result = {0};
	const LaPartitionRequest *request;
	const char *parent;
	MemoryContext batch;
	int			size;

	if (call == NULL || !IsA(call, CallContext) || call->atomic)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
				 errmsg("partitions cannot be created in batches within a transaction"),
				 errhint("Use CALL outside of a transaction block, or the function without \"_batched\".")));
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	request = read_request(fcinfo, by_list, argument + 1);
	size = la_sql_argument_number(fcinfo, argument, "batch_size", 1, MOST_PARTITIONS);
	batch = AllocSetContextCreate(CurrentMemoryContext,
								  "pg_lookahead batch of partitions",
								  ALLOCSET_DEFAULT_SIZES);
	create_batch(batch, request, size, &result);
	while (result.next < request->series->count)
	{
		/* Tells how far it has come when that is certain. */
		parent = get_rel_name(request->parent);
		SPI_commit();
		EnsurePortalSnapshotExists();
		ereport(NOTICE,
				(errmsg("partitions of \"%s\": %d of %d are there",
						parent, result.next, request->series->count)));
		create_batch(batch, request, size, &result);
	}
	SPI_finish();
	return form_result(fcinfo, &result);
}

/*
 * SQL procedure pg_lookahead_create_range_partitions_batched(parent, start,
 * step, count, batch_size, names, ...).
 */
Datum
pg_lookahead_create_range_partitions_batched(PG_FUNCTION_ARGS)
{
	return create_in_batches(fcinfo, false);
}

/*
 * SQL function pg_lookahead_create_list_partitions(parent, bounds, modulus,
 * names, tablespace, storage, subpartition_by, way).
 */
Datum
pg_lookahead_create_list_partitions(PG_FUNCTION_ARGS)
{
	return create_in_one(fcinfo, read_request(fcinfo, true, 3));
}

/*
 * SQL procedure pg_lookahead_create_list_partitions_batched(parent, bounds,
 * modulus, batch_size, names, ...).
 */
Datum
pg_lookahead_create_list_partitions_batched(PG_FUNCTION_ARGS)
{
	return create_in_batches(fcinfo, true);
}
