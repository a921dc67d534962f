/*-------------------------------------------------------------------------
 *
 * la_sql_function.h
 *	  what the SQL functions of the extension have in common
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_SQL_FUNCTION_H
#define LA_SQL_FUNCTION_H

#include "access/tupdesc.h"
#include "datatype/timestamp.h"
#include "fmgr.h"

extern TupleDesc la_sql_function_row(FunctionCallInfo fcinfo, int columns);
extern void la_sql_function_check_row(FunctionCallInfo fcinfo, TupleDesc row,
									  int columns);

extern void la_sql_argument_need(FunctionCallInfo fcinfo, int argument,
								 const char *name);
extern int	la_sql_argument_number(FunctionCallInfo fcinfo, int argument,
								   const char *name, int least, int most);
extern char *la_sql_argument_text(FunctionCallInfo fcinfo, int argument);
extern char *la_sql_argument_any(FunctionCallInfo fcinfo, int argument,
								 const char *name);
extern int	la_sql_argument_begin_output(void);
extern void la_sql_argument_set(const char *setting, const char *value);
extern char *la_sql_argument_text_of(Datum value, Oid type);
extern Datum la_sql_argument_numeric(const char *text);
extern Interval *la_sql_argument_interval(const char *text, const char *argument);

#endif							/* LA_SQL_FUNCTION_H */
