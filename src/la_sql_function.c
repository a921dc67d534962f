/*-------------------------------------------------------------------------
 *
 * la_sql_function.c
 *	  what the SQL functions of the extension have in common
 *
 * The extension script in a database and the loaded library may be of
 * different versions, so what a function returns is compared with what the
 * library fills in before that is done.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "funcapi.h"
#include "utils/lsyscache.h"

#include "la_sql_function.h"

/*
 * The row that a function returns, which has to have so many columns.
 */
TupleDesc
la_sql_function_row(FunctionCallInfo fcinfo, int columns)
{
	TupleDesc	row;

	if (get_call_result_type(fcinfo, NULL, &row) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	la_sql_function_check_row(fcinfo, row, columns);
	return row;
}

/*
 * Refuses a function of another version's extension script.
 */
void
la_sql_function_check_row(FunctionCallInfo fcinfo, TupleDesc row, int columns)
{
	if (row->natts != columns)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("function %s belongs to another version of pg_lookahead",
						get_func_name(fcinfo->flinfo->fn_oid)),
				 errdetail("It returns %d columns, the loaded library has %d.",
						   row->natts, columns),
				 errhint("Run ALTER EXTENSION pg_lookahead UPDATE, or start a new session.")));
}
