/*-------------------------------------------------------------------------
 *
 * la_sql_function.c
 *	  what the SQL functions of the extension have in common: arguments as texts, rows
 *
 * The extension script in a database and the loaded library may be of
 * different versions, so what a function returns is compared with what the
 * library fills in before that is done.
 *
 * Where an argument may be of any type, what counts is the text that it has
 * whatever the session's settings.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

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

/*
 * Refuses a null.
 */
void
la_sql_argument_need(FunctionCallInfo fcinfo, int argument, const char *name)
{
	if (PG_ARGISNULL(argument))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not be null", name)));
}

/*
 * An argument of type integer, within these limits.
 */
int
la_sql_argument_number(FunctionCallInfo fcinfo, int argument, const char *name,
					   int least, int most)
{
	int			number;

	la_sql_argument_need(fcinfo, argument, name);
	number = PG_GETARG_INT32(argument);
	if (number < least || number > most)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must be between %d and %d", name, least, most)));
	return number;
}

/*
 * An argument of type text, or NULL.
 */
char *
la_sql_argument_text(FunctionCallInfo fcinfo, int argument)
{
	return PG_ARGISNULL(argument) ? NULL
		: text_to_cstring(PG_GETARG_TEXT_PP(argument));
}

/*
 * An argument of any type, or a literal without one, as text.
 */
char *
la_sql_argument_any(FunctionCallInfo fcinfo, int argument, const char *name)
{
	int			level;
	char	   *text;

	la_sql_argument_need(fcinfo, argument, name);
	level = la_sql_argument_begin_output();
	text = la_sql_argument_text_of(PG_GETARG_DATUM(argument),
								   get_fn_expr_argtype(fcinfo->flinfo, argument));

	AtEOXact_GUC(true, level);
	return text;
}

/*
 * Values are made texts now, which are read as the same values whatever the
 * session's settings.  Returns the level at which these are changed, to be ended
 * by AtEOXact_GUC().
 */
int
la_sql_argument_begin_output(void)
{
	int			level = NewGUCNestLevel();

	la_sql_argument_set("datestyle", "ISO");
	la_sql_argument_set("intervalstyle", "postgres");
	la_sql_argument_set("extra_float_digits", "3");
	RestrictSearchPath();
	return level;
}

/*
 * The text of a value, after la_sql_argument_begin_output().  Dates of their own need the time
 * zone and no style.
 */
char *
la_sql_argument_text_of(Datum value, Oid type)
{
	Oid			output;
	bool		is_varlena;

	type = getBaseType(type);
	if (type == UNKNOWNOID)
		return pstrdup(DatumGetCString(value));
	if (type == DATEOID || type == TIMESTAMPOID || type == TIMESTAMPTZOID)
		return JsonEncodeDateTime(NULL, value, type, NULL);
	/* A cast to another type takes no blanks along. */
	if (type == BPCHAROID)
		return TextDatumGetCString(DirectFunctionCall1(rtrim1, value));
	getTypeOutputInfo(type, &output, &is_varlena);
	return OidOutputFunctionCall(output, value);
}

/*
 * Changes a setting until the level of settings is ended that the caller has begun, by
 * la_sql_argument_begin_output() or NewGUCNestLevel().
 */
void
la_sql_argument_set(const char *setting, const char *value)
{
	(void) set_config_option(setting, value, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

/*
 * A length of time from its text.  A number alone, which core reads as seconds, is refused:
 * whoever writes 90 means days as often as not.
 */
Interval *
la_sql_argument_interval(const char *text, const char *argument)
{
	bool		has_unit = false;

	for (const char *c = text; *c != '\0'; c++)
		has_unit |= *c == ':' || isalpha((unsigned char) *c);
	if (!has_unit)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" has no unit of time: \"%s\"", argument, text),
				 errhint("Give it one, as in '90 days', '1 month' or '15 minutes'.")));
	return DatumGetIntervalP(DirectFunctionCall3(interval_in,
												 CStringGetDatum(text),
												 ObjectIdGetDatum(InvalidOid),
												 Int32GetDatum(-1)));
}

/*
 * A number from its text.
 */
Datum
la_sql_argument_numeric(const char *text)
{
	return DirectFunctionCall3(numeric_in, CStringGetDatum(text),
							   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
}
